"""Narrow floats: blocks of 32 elements to codes, and codes to bfloat16: narrow.c."""

from __future__ import annotations

from struct import Struct

import torch
from torch import Tensor

from .library import KINDS, empty_strided, function

BLOCK = 32
# ``struct blocks`` of narrow.c: x, multiplier, largest, y; rows, width; dtype of x, mantissa bits, least exponent, top
# code, sign bit, whether elements are rounded down.
_BLOCKS = Struct("4P2n6i")
# ``struct codes`` of narrow.c: x, table, scale, y; strides of x and scale, rows, width; whether scales are along rows.
_CODES = Struct("4P4ni")

_encode = function("graph_quant_encode_blocks")
_decode = function("graph_quant_decode_codes")


def can_encode_blocks(x: Tensor) -> bool:
    """Whether ``largest_of_blocks`` and ``encode_blocks`` take such elements; fake tensors may be passed."""
    return _encode is not None and x.is_cpu and x.dtype in (torch.float16, torch.bfloat16, torch.float32)


def largest_of_blocks(x: Tensor) -> Tensor:
    """Return the largest magnitude of each 32 elements of contiguous rows, in float32 (row, block)."""
    assert _encode is not None
    rows, width = x.shape
    blocks = -(-width // BLOCK)
    largest = empty_strided((rows, blocks), (blocks, 1), torch.float32)
    _encode(_BLOCKS.pack(x.data_ptr(), 0, largest.data_ptr(), 0, rows, width, KINDS[x.dtype], 0, 0, 0, 0, 0), None, 1)
    return largest


def encode_blocks(
    x: Tensor, multiplier: Tensor, mantissa_bits: int, least: int, max_code: int, sign_bit: int, rounds_down: bool
) -> Tensor:
    """Return the codes, a byte each, of contiguous rows times one contiguous float32 for each 32 elements."""
    assert _encode is not None
    rows, width = x.shape
    y = empty_strided((rows, width), (width, 1), torch.uint8)
    pointers = x.data_ptr(), multiplier.data_ptr(), 0, y.data_ptr()
    numbers = KINDS[x.dtype], mantissa_bits, least, max_code, sign_bit, rounds_down
    _encode(_BLOCKS.pack(*pointers, rows, width, *numbers), None, 1)
    return y


def can_decode_codes() -> bool:
    """Whether ``decode_codes`` works here."""
    return _decode is not None


def decode_codes(codes: Tensor, table: Tensor, scale: Tensor | None, along_rows: bool) -> Tensor:
    """Return the bfloat16 of codes (row, column), whose columns are contiguous.

    Args:
        codes: A code in each byte.
        table: The bfloat16 of all 256 codes.
        scale: Biased exponents (row, column / 32) or (row / 32, column), with contiguous columns.
        along_rows: Which of the two.
    """
    assert _decode is not None
    rows, width = codes.shape
    y = empty_strided((rows, width), (width, 1), torch.bfloat16)
    arguments = _CODES.pack(
        codes.data_ptr(),
        table.data_ptr(),
        0 if scale is None else scale.data_ptr(),
        y.data_ptr(),
        codes.stride(0),
        0 if scale is None else scale.stride(0),
        rows,
        width,
        along_rows,
    )
    _decode(arguments, None, 1)
    return y
