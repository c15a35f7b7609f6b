"""The int64 quantisation parameter that matmul kernels read.

======  ======================================================
bits    content
======  ======================================================
0-12    zero
13-31   the top 19 bits of the float32 scale
32-36   zero
37-45   the offset, a signed 9-bit integer
46      always one
47-63   zero
======  ======================================================
"""

from __future__ import annotations

import torch

DROPPED_SCALE_BITS = 13
SCALE_MASK = 0xFFFFE000
OFFSET_SHIFT = 37
OFFSET_LOW, OFFSET_HIGH = -256, 255
VALID_BIT = 1 << 46
TRUNCATE, ROUND_HALF_EVEN = 0, 1

_EXPONENT_MASK = 0x7F800000
_SIGN_MASK = 0x80000000


def encode(scale: torch.Tensor, offset: torch.Tensor | None = None, round_mode: int = TRUNCATE) -> torch.Tensor:
    """Pack float32 ``scale`` and ``offset``, broadcast against each other, into int64 parameters."""
    bits = scale.to(torch.float32).contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    if round_mode == ROUND_HALF_EVEN:
        bits = _round_mantissa(bits)
    params = (bits & SCALE_MASK) | VALID_BIT
    if offset is not None:
        whole = torch.nan_to_num(offset.to(torch.float32), nan=0.0).round()
        nine_bits = whole.clamp(OFFSET_LOW, OFFSET_HIGH).to(torch.int64) & 0x1FF
        params = params | (nine_bits << OFFSET_SHIFT)
    return params


def signed(params: torch.Tensor) -> torch.Tensor:
    """Return parameters as int64; uint64, which GE and the documents use, is reinterpreted."""
    return params.view(torch.int64) if params.dtype == torch.uint64 else params


def decode(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the float32 scale and the int32 offset of int64 ``params``."""
    if params.dtype != torch.int64:
        raise TypeError(f"decode: params must be torch.int64, got {params.dtype}")
    scale = (params & SCALE_MASK).to(torch.int32).view(torch.float32)
    nine_bits = (params >> OFFSET_SHIFT) & 0x1FF
    return scale, ((nine_bits ^ 0x100) - 0x100).to(torch.int32)


def _round_mantissa(bits: torch.Tensor) -> torch.Tensor:
    """Round float32 bits to ten mantissa bits, half to even; subnormals become zero, Inf and NaN stay."""
    half_below = (1 << (DROPPED_SCALE_BITS - 1)) - 1
    rounded = bits + half_below + ((bits >> DROPPED_SCALE_BITS) & 1)
    exponent = bits & _EXPONENT_MASK
    rounded = torch.where(exponent == 0, bits & _SIGN_MASK, rounded)
    return torch.where(exponent == _EXPONENT_MASK, bits, rounded)
