"""Blocks of narrow floats by the package's native code: opaque operators to tracers."""

from __future__ import annotations

import torch
from graph_quant import native
from graph_quant.dispatcher import step
from graph_quant.narrow_floats import FLOOR, RINT, NarrowFloat
from torch import Tensor

BLOCK = 32


def can_encode(x: Tensor, block_size: int, mode: str) -> bool:
    """Whether native code quantises such blocks along the last dimension."""
    return native.can_encode_blocks(x) and block_size == BLOCK and mode in (RINT, FLOOR)


def largest_of_blocks(x: Tensor) -> Tensor:
    """The largest magnitude of each 32 elements of the rows of a contiguous matrix, in float32; NaN is the largest."""
    return native.largest_of_blocks(x) if _is_plain(x) else _LARGEST(x)  # type: ignore[no-any-return]


def encode_blocks(x: Tensor, multiplier: Tensor, target: NarrowFloat, mode: str) -> Tensor:
    """``narrow_floats.encode`` of the rows of a contiguous matrix times one float32 for each 32 elements, in bytes."""
    sign_bit = 1 << (target.bits - 1)
    numbers = target.mantissa_bits, target.least_exponent, target.max_code, sign_bit, mode == FLOOR
    if _is_plain(x):
        return native.encode_blocks(x, multiplier, *numbers)
    return _ENCODE(x, multiplier, *numbers)  # type: ignore[no-any-return]


def _is_plain(x: Tensor) -> bool:
    return type(x) is Tensor and not torch.compiler.is_dynamo_compiling()


def _infer_largest(x: Tensor) -> Tensor:
    return x.new_empty((x.size(0), (x.size(1) + BLOCK - 1) // BLOCK), dtype=torch.float32)


def _infer_codes(x: Tensor, *_: object) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.uint8)


def _encode(x: Tensor, multiplier: Tensor, mantissa_bits: int, least: int, top: int, sign: int, down: bool) -> Tensor:
    return native.encode_blocks(x.contiguous(), multiplier.contiguous(), mantissa_bits, least, top, sign, down)


def _largest(x: Tensor) -> Tensor:
    return native.largest_of_blocks(x.contiguous())


_LARGEST = step("largest_of_blocks(Tensor x) -> Tensor", _largest, _infer_largest)
_ENCODE = step(
    "encode_blocks(Tensor x, Tensor multiplier, int mantissa_bits, int least, int top, int sign, bool down) -> Tensor",
    _encode,
    _infer_codes,
)
