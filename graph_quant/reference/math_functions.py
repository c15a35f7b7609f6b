"""Functions of numbers that are composed of others, eagerly on the host and in graphs, so that both round alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)
# Of float32: the bits of the exponent, where it stands and what is added to it, and of a number between 1/2 and 1.
_EXPONENT, _PLACE, _BIAS, _OF_A_HALF = 0x7F800000, 23, 126, 0x3F000000
_SMALLEST_NORMAL, _LIFTED = 2.0**-126, 25


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _HALVES or not x.is_floating_point() else x


def hypot(x: Tensor, other: Tensor) -> Tensor:
    """The larger times the root of 1 and the square of what the smaller is of it: nothing overflows before."""
    kind = torch.result_type(x, other)
    one, two = (_wide(each.to(kind)).abs() for each in (x, other))
    larger, smaller = torch.maximum(one, two), torch.minimum(one, two)
    ratio = torch.where(larger == 0, 0.0, smaller / larger)
    found = larger * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(one) | torch.isinf(two), torch.inf, found).to(kind)


def i0(x: Tensor) -> Tensor:
    """The scaled function, and its scale again."""
    wide = _wide(x)
    found = torch.special.i0e(wide) * torch.exp(wide.abs())
    return found.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def i1(x: Tensor) -> Tensor:
    """The scaled function, and its scale again."""
    wide = _wide(x)
    found = torch.special.i1e(wide) * torch.exp(wide.abs())
    return found.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def entr(x: Tensor) -> Tensor:
    """Minus a number times its logarithm; nothing of nothing, and no number below it."""
    wide = _wide(x)
    found = torch.where(wide > 0, -wide * torch.log(wide), torch.where(wide == 0, 0.0, -torch.inf))
    kept = torch.where(torch.isnan(wide), wide, found)
    return kept.to(x.dtype if x.is_floating_point() else torch.get_default_dtype())


def lcm(x: Tensor, other: Tensor) -> Tensor:
    """The product, divided by what both have in common."""
    common = torch.gcd(x, other)
    once = torch.where(common == 0, 1, common)
    return torch.where(common == 0, 0, (torch.div(x, once, rounding_mode="trunc") * other).abs()).to(common.dtype)


def frexp(x: Tensor) -> Any:
    """A number between 1/2 and 1 and a power of 2, by the bits of float32; NotImplemented for wider numbers."""
    if x.dtype is torch.float64:
        return NotImplemented
    wide = x.float()
    is_tiny = wide.abs() < _SMALLEST_NORMAL
    bits = torch.where(is_tiny, wide * 2.0**_LIFTED, wide).view(torch.int32)
    power = ((bits & _EXPONENT) >> _PLACE) - torch.where(is_tiny, _BIAS + _LIFTED, _BIAS)
    part = ((bits & ~_EXPONENT) | _OF_A_HALF).view(torch.float32)
    is_itself = (wide == 0) | ~torch.isfinite(wide)
    return torch.where(is_itself, wide, part).to(x.dtype), torch.where(is_itself, 0, power).to(torch.int32)


ROUNDING: dict[str, Callable[..., Any]] = {
    "hypot": hypot,
    "i0": i0,
    "special_entr": entr,
    "special_i1": i1,
}
GRAPH_ONLY: dict[str, Callable[..., Any]] = {"frexp.Tensor": frexp, "lcm": lcm}
