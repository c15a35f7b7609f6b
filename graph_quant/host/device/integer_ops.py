"""What the NPU does with integers and the CPU does not.

Operators that the CPU has for floats alone are computed in double precision. Of a quotient without its fraction,
processors trap where the smallest integer is divided by -1, which ends the process; it is its own negative.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .kernels import Kernel

NAMES = frozenset({"aten::histc"})
DIVISIONS = frozenset(
    f"aten::{each}"
    for each in ("div.Tensor_mode", "div_.Tensor_mode", "div.out_mode", "div.Scalar_mode", "div_.Scalar_mode")
)


def through_double(kernel: Kernel) -> Kernel:
    """``kernel``, for integers as well; double precision holds every integer that is counted."""

    def serve(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.is_floating_point():
            return kernel(x, *args, **kwargs)
        return kernel(x.double(), *args, **kwargs).to(x.dtype)

    return serve


def without_traps(name: str, kernel: Kernel) -> Kernel:
    """``kernel``, a division, with the numbers that are divided by -1 negated beforehand and divided by 1."""

    def serve(x: Tensor, other: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("rounding_mode") != "trunc" or not _may_trap(x, other):
            return kernel(x, other, *args, **kwargs)
        numbers, divisors = _negated(x.to(torch.result_type(x, other)), other)
        if name.startswith("aten::div_."):
            return x.copy_(torch.div(numbers, divisors, rounding_mode="trunc"))
        return kernel(numbers, divisors, *args, **kwargs)

    return serve


def _negated(numbers: Tensor, other: Any) -> tuple[Tensor, Any]:
    if not isinstance(other, Tensor):
        return -numbers, 1
    by_minus_one = other == -1
    divisors = other.to(numbers.dtype).masked_fill(by_minus_one, 1)
    return torch.where(by_minus_one, -numbers, numbers), divisors


def _may_trap(x: Any, other: Any) -> bool:
    if not isinstance(x, Tensor):
        return False
    common = torch.result_type(x, other)
    if common not in (torch.int32, torch.int64):
        return False
    return bool((other == -1).any()) if isinstance(other, Tensor) else other == -1
