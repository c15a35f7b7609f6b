"""Decompositions of elementwise functions that eager calls on the host and graphs share, so that both round alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)
# The float32 exponent: its mask, shift and bias for a mantissa in [1/2, 1), and the exponent bits of such a mantissa.
_EXPONENT, _SHIFT, _BIAS, _EXPONENT_OF_HALF = 0x7F800000, 23, 126, 0x3F000000
# Subnormal numbers are scaled by 2**25 first.
_SMALLEST_NORMAL, _SCALED_BY = 2.0**-126, 25


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _HALVES or not x.is_floating_point() else x


def hypot(x: Tensor, other: Tensor) -> Tensor:
    """``larger * sqrt(1 + (smaller / larger)**2)``, which does not overflow in between."""
    dtype = torch.result_type(x, other)
    one, two = (_wide(operand.to(dtype)).abs() for operand in (x, other))
    larger, smaller = torch.maximum(one, two), torch.minimum(one, two)
    ratio = torch.where(larger == 0, 0.0, smaller / larger)
    result = larger * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(one) | torch.isinf(two), torch.inf, result).to(dtype)


def i0(x: Tensor) -> Tensor:
    """Modified Bessel function of order 0, from the exponentially scaled one."""
    wide = _wide(x)
    result = torch.special.i0e(wide) * torch.exp(wide.abs())
    return result.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def i1(x: Tensor) -> Tensor:
    """Modified Bessel function of order 1, from the exponentially scaled one."""
    wide = _wide(x)
    result = torch.special.i1e(wide) * torch.exp(wide.abs())
    return result.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def entr(x: Tensor) -> Tensor:
    """``-x * log(x)``; 0 for 0 and -inf for negative numbers."""
    wide = _wide(x)
    result = torch.where(wide > 0, -wide * torch.log(wide), torch.where(wide == 0, 0.0, -torch.inf))
    kept = torch.where(torch.isnan(wide), wide, result)
    return kept.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def lcm(x: Tensor, other: Tensor) -> Tensor:
    """Least common multiple: the product divided by the greatest common divisor."""
    common = torch.gcd(x, other)
    once = torch.where(common == 0, 1, common)
    return torch.where(common == 0, 0, (torch.div(x, once, rounding_mode="trunc") * other).abs()).to(common.dtype)


def frexp(x: Tensor) -> Any:
    """Mantissa in [1/2, 1) and exponent, from the bits of float32; NotImplemented for float64."""
    if x.dtype is torch.float64:
        return NotImplemented
    wide = x.float()
    is_tiny = wide.abs() < _SMALLEST_NORMAL
    bits = torch.where(is_tiny, wide * 2.0**_SCALED_BY, wide).view(torch.int32)
    exponent = ((bits & _EXPONENT) >> _SHIFT) - torch.where(is_tiny, _BIAS + _SCALED_BY, _BIAS)
    mantissa = ((bits & ~_EXPONENT) | _EXPONENT_OF_HALF).view(torch.float32)
    is_special = (wide == 0) | ~torch.isfinite(wide)
    return torch.where(is_special, wide, mantissa).to(x.dtype), torch.where(is_special, 0, exponent).to(torch.int32)


ROUNDING: dict[str, Callable[..., Any]] = {
    "hypot": hypot,
    "i0": i0,
    "special_entr": entr,
    "special_i1": i1,
}
GRAPH_ONLY: dict[str, Callable[..., Any]] = {"frexp.Tensor": frexp, "lcm": lcm}
