"""Weights of the schemes that linears and experts share, as the kernels take them. A weight is (…, n, k)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.nn import weights
from torch import Tensor

# For the product with int4 weights an int8 row is written as 16 * high + low + 8; this is the shift to make up for.
_SHIFT = 8
_SPLIT_UNIT, _DEEPEST_SPLIT = 64, 18432


class WeightOnly(NamedTuple):
    """``elements`` (…, k, n), int4 as int32 (…, k, n/8); ``scale`` (…, n) or (…, stretches, n) in the dtype of x."""

    elements: Tensor
    scale: Tensor


class Split(NamedTuple):
    """int4 weights for int8 rows in two halves of int4.

    ``elements`` int32 (…, k, n/8); ``scale`` int64 (…, stretches, n), the bits of float32; ``assist`` float32 (…, n),
    which makes up for the shift of the halves.
    """

    elements: Tensor
    scale: Tensor
    assist: Tensor


def weight_only(module: str, weight: Tensor, destination: Destination, group_size: int | None) -> WeightOnly:
    """``weight`` restored at run time; its scales are rounded to its dtype before its elements are."""
    length = stretch_length(module, weight, group_size)
    check_packable(module, weight, destination)
    values = weight.detach().float()
    if length is None:
        scale = weights.representable(weights.channel_scales(values, destination), weight.dtype)
    else:
        scale = weights.representable(weights.stretch_scales(values, length, destination), weight.dtype)
    integers = weights.to_integers(values, scale.float(), destination, length)
    return WeightOnly(weights.columns(integers, destination), scale if length is None else scale.mT.contiguous())


def split(module: str, weight: Tensor, group_size: int | None) -> Split:
    """``weight`` in int4 for int8 rows."""
    check_split(module, weight)
    depth = weight.size(-1)
    length = stretch_length(module, weight, group_size) or depth
    if depth % length:
        raise ValueError(f"{module}: group_size must divide the input channels, got {length} and {depth}")
    values = weight.detach().float()
    # With one stretch and many rows the kernel cuts scales to bfloat16, else to 19 bits: they fit both beforehand.
    scale = weights.stretch_scales(values, length, INT4)
    scale = weights.representable(scale, torch.bfloat16).float() if length == depth else weights.packable(scale)
    return split_integers(weights.to_integers(values, scale, INT4, length), scale)


def check_split(module: str, weight: Tensor) -> None:
    """Refuses sizes that the product of int8 with int4 does not take."""
    depth = weight.size(-1)
    if depth % _SPLIT_UNIT or depth > _DEEPEST_SPLIT:
        raise ValueError(
            f"{module}: input channels must be a multiple of {_SPLIT_UNIT} and at most {_DEEPEST_SPLIT}, got {depth}"
        )
    check_packable(module, weight, INT4)


def split_integers(integers: Tensor, scale: Tensor) -> Split:
    """int4 elements (…, n, k) and their scales (…, n, stretches) for int8 rows."""
    length = integers.size(-1) // scale.size(-1)
    restored = integers.double() * scale.double().repeat_interleave(length, -1)
    bits = scale.mT.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    return Split(weights.columns(integers, INT4), bits, (_SHIFT * restored.sum(-1)).float())


def int8_columns(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """``weight`` in int8, (…, k, n), and the scale of each column, (…, n), rounded to ``dtype`` before the elements."""
    values = weight.detach().float()
    scale = weights.representable(weights.channel_scales(values, INT8), dtype)
    return weights.columns(weights.to_integers(values, scale.float(), INT8), INT8), scale


def stretch_length(module: str, weight: Tensor, group_size: int | None) -> int | None:
    """How many input channels share a scale; None for all."""
    if group_size is not None and group_size < 1:
        raise ValueError(f"{module}: group_size must be None or positive, got {group_size}")
    return None if group_size is None or group_size >= weight.size(-1) else group_size


def check_packable(module: str, weight: Tensor, destination: Destination) -> None:
    """int4 is packed along the output channels."""
    if weight.size(-2) % destination.packing:
        raise ValueError(
            f"{module}: output channels must be a multiple of {destination.packing}, got {weight.size(-2)}"
        )
