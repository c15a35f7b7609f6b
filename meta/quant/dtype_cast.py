"""npu_dtype_cast and its gradient: a tensor in another dtype that torch itself has; packed floats are Ascend 950's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from torch import Tensor

NUMBERS = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.bfloat16,
)


@dataclass(frozen=True)
class CastPlan(Plan):
    """``to`` is the dtype of the result."""

    to: torch.dtype


def cast(x: Tensor, to: torch.dtype) -> Tensor:
    """``x`` in the dtype ``to``: floats round half to even, and are truncated to integers."""
    return x.to(to)


@operator("npu_dtype_cast", reference=cast, chips=A2_A3_950)
def dtype_cast(rules: Rules, x: Tensor, dtype: int, input_dtype: int | None) -> CastPlan:
    """The plan of a call that A2 and A3 can carry out; any other call is refused."""
    rules.refuse_950(input_dtype=input_dtype)
    to = SCALAR_TYPES.get(dtype) if isinstance(dtype, int) else dtype
    if to not in NUMBERS:
        rules.refuse(f"dtype must be one of {', '.join(map(str, NUMBERS))}, got {describe(dtype)}")
    return CastPlan((Result(tuple(x.shape), to),), to)


@operator("npu_dtype_cast_backward", reference=cast, chips=A2_A3_950)
def dtype_cast_backward(
    rules: Rules, x: Tensor, dtype: torch.dtype, grad_dtype: int | None, input_dtype: int | None
) -> CastPlan:
    """The plan of a call that A2 and A3 can carry out; any other call is refused.

    ``dtype`` is the dtype before the cast, ``grad_dtype`` the one after it.
    """
    if grad_dtype is not None and SCALAR_TYPES.get(grad_dtype) is not x.dtype:
        rules.refuse(f"grad_dtype must be that of grad, {x.dtype}, got {describe(grad_dtype)}")
    rules.refuse_950(input_dtype=input_dtype)
    rules.one_of("dtype", dtype, NUMBERS)
    return CastPlan((Result(tuple(x.shape), dtype),), dtype)
