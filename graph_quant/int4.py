"""Packing of int4: eight signed elements in each int32, element j in bits 4j to 4j+3, lowest nibble first."""

from __future__ import annotations

import torch
from graph_quant import native
from graph_quant.destination import INT4


def pack(values: torch.Tensor) -> torch.Tensor:
    """Pack int4 elements along the last dimension, eight into each int32.

    Args:
        values: Integers in [-8, 7], of any integer dtype; the last dimension is a multiple of 8.

    Returns:
        int32 with 1/8 of the last dimension.

    Raises:
        ValueError: The last dimension is not a multiple of 8.

    Examples:
        >>> pack(torch.arange(8))
        tensor([1985229328], dtype=torch.int32)
    """
    if values.size(-1) % INT4.packing:
        raise ValueError(f"pack: the last dimension must be a multiple of 8, got {values.size(-1)}")
    nibbles = values.to(torch.int8)
    if torch.compiler.is_compiling() and values.numel():
        return _pack_fours(nibbles)
    # Two nibbles, a byte each, are read as one int16 and folded into a byte; four bytes are the int32.
    # Flat, for torch refuses to view a matrix without columns as another dtype.
    pairs = nibbles.flatten().view(torch.int16)
    packed = ((pairs & 0x0F) | ((pairs >> 4) & 0xF0)).to(torch.uint8).view(torch.int32)
    return packed.reshape(INT4.stored_shape(values.shape))


def _pack_fours(nibbles: torch.Tensor) -> torch.Tensor:
    """Pack four nibbles at a time: more operations, all of which Inductor vectorises, for any shape."""
    fours = nibbles.contiguous().view(torch.int32) & 0x0F0F0F0F
    bytes_ = (fours | (fours >> 4)) & 0x00FF00FF
    return (bytes_ | (bytes_ >> 8)).to(torch.int16).view(torch.int32)


def pack_pairs(values: torch.Tensor) -> torch.Tensor:
    """Pack integers in [-8, 7] along the last dimension, of even length, two into each int8, low bits first."""
    if values.size(-1) % 2:
        raise ValueError(f"pack_pairs: the last dimension must be even, got {values.size(-1)}")
    low, high = values.to(torch.int8).unflatten(-1, (-1, 2)).unbind(-1)
    return (low & 0x0F) | (high << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Unpack the int4 elements that int32 hold.

    Args:
        packed: int32 of any shape.

    Returns:
        int8 in [-8, 7], with eight times the last dimension.

    Raises:
        TypeError: ``packed`` is not int32.
    """
    if packed.dtype != torch.int32:
        raise TypeError(f"unpack: packed must be torch.int32, got {packed.dtype}")
    if type(packed) is torch.Tensor and not torch.compiler.is_dynamo_compiling() and native.can_unpack_int4(packed):
        return native.unpack_int4(packed)
    lanes = packed.flatten().to(torch.int64) & 0xFFFFFFFF
    lanes = (lanes | (lanes << 16)) & 0x0000FFFF0000FFFF
    lanes = (lanes | (lanes << 8)) & 0x00FF00FF00FF00FF
    lanes = (lanes | (lanes << 4)) & 0x0F0F0F0F0F0F0F0F
    nibbles = lanes.view(torch.int8).reshape(*packed.shape[:-1], packed.size(-1) * INT4.packing)
    return (nibbles ^ 8) - 8
