"""Integer inputs that the NPU takes and the CPU does not: histc of integers, and division of the minimum by -1.

histc of integers is computed in double precision, because the CPU has it for floating point alone. Truncating division
of the smallest integer by -1 traps on the CPU, which ends the process; on the NPU the result is the integer itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .kernels import Kernel


def _in_double(_op: OpOverload, kernel: Kernel) -> Kernel:
    """Convert integers to double, which is exact for every integer that is counted."""

    def wrapper(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.is_floating_point():
            return kernel(x, *args, **kwargs)
        return kernel(x.double(), *args, **kwargs).to(x.dtype)

    return wrapper


def _avoid_trap(op: OpOverload, kernel: Kernel) -> Kernel:
    """Replace division by -1 with negation and division by 1."""
    in_place = op.name().startswith("aten::div_.")

    def wrapper(x: Tensor, other: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("rounding_mode") != "trunc" or not _may_trap(x, other):
            return kernel(x, other, *args, **kwargs)
        dividend, divisor = _negate(x.to(torch.result_type(x, other)), other)
        if in_place:
            return x.copy_(torch.div(dividend, divisor, rounding_mode="trunc"))
        return kernel(dividend, divisor, *args, **kwargs)

    return wrapper


def _negate(dividend: Tensor, divisor: Any) -> tuple[Tensor, Any]:
    if not isinstance(divisor, Tensor):
        return -dividend, 1
    by_minus_one = divisor == -1
    positive = divisor.to(dividend.dtype).masked_fill(by_minus_one, 1)
    return torch.where(by_minus_one, -dividend, dividend), positive


def _may_trap(x: Any, other: Any) -> bool:
    if not isinstance(x, Tensor) or torch.result_type(x, other) not in (torch.int32, torch.int64):
        return False
    return bool((other == -1).any()) if isinstance(other, Tensor) else other == -1


_DIVISIONS = ("div.Tensor_mode", "div_.Tensor_mode", "div.out_mode", "div.Scalar_mode", "div_.Scalar_mode")
WRAPPERS = {"aten::histc": _in_double, **dict.fromkeys((f"aten::{name}" for name in _DIVISIONS), _avoid_trap)}
