"""npu_dtype_cast and its gradient: a tensor in another dtype.

On Ascend 950 floats are also cast to float8_e4m3fn, float8_e5m2, HiFloat8 (in uint8) and float4 (two in a uint8), and
back. ``input_dtype`` says what bytes hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.narrow_floats import NUMBERS as NARROW
from graph_quant.reference.quant.dtype_cast import cast
from graph_quant.refusals import UndescribedError
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
# What narrow floats are cast from and to.
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
HIFLOAT8 = 290
# The narrow floats that torch has, of which a number may be its own.
OF_TORCH = {torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2"}
IN_BYTES = {HIFLOAT8: "hifloat8", **{number: form.name for number, form in NARROW.items() if form.dtype is None}}


@dataclass(frozen=True)
class CastPlan(Plan):
    """``to`` is the dtype of the result; ``target`` and ``source`` name narrow floats of Ascend 950."""

    to: torch.dtype
    target: str | None = None
    source: str | None = None


@operator("npu_dtype_cast", reference=cast, chips=A2_A3_950)
def dtype_cast(rules: Rules, x: Tensor, dtype: int, input_dtype: int | None) -> CastPlan:
    """The plan of a call that the chip can carry out; any other call is refused."""
    to = SCALAR_TYPES.get(dtype) if isinstance(dtype, int) else dtype
    if rules.chip is ASCEND_950:
        number = dtype if isinstance(dtype, int) else None
        target, source = _name(number, to), _name(input_dtype, x.dtype)
        if target is not None or source is not None:
            return _plan_950(rules, x, target, source, to, dtype)
    rules.refuse_950(input_dtype=input_dtype)
    if to not in NUMBERS:
        rules.refuse(f"dtype must be one of {', '.join(map(str, NUMBERS))}, got {describe(dtype)}")
    return CastPlan((Result(tuple(x.shape), to),), to)


def _name(number: int | None, dtype: torch.dtype | None) -> str | None:
    """The narrow float that a number, or else a dtype of torch, means."""
    if number in IN_BYTES:
        return IN_BYTES[number]
    if number in NARROW:
        return NARROW[number].name
    return OF_TORCH.get(dtype) if dtype is not None else None


def _plan_950(
    rules: Rules, x: Tensor, target: str | None, source: str | None, to: torch.dtype | None, dtype: int
) -> CastPlan:
    if "float4" in (target or source or ""):
        rules.at_least("rank of input", x.dim(), 1)
    shape = tuple(x.shape)
    if source is not None:
        if target is not None or to not in FLOATS:
            raise UndescribedError(f"{rules.op}: {source} to {target or describe(dtype)} is not described yet")
        rules.dtype("input", x, (_stored(source),), f" for input_dtype {source}")
        assert to is not None
        shape = (*shape[:-1], shape[-1] * 2) if source.startswith("float4") else shape
        return CastPlan((Result(shape, to),), to, None, source)
    assert target is not None
    if x.dtype not in FLOATS:
        raise UndescribedError(f"{rules.op}: {x.dtype} to {target} is not described yet")
    if target.startswith("float4"):
        rules.multiple("input.size(-1)", x.size(-1), 2, f" for {target}")
        shape = (*shape[:-1], shape[-1] // 2)
    return CastPlan((Result(shape, _stored(target)),), _stored(target), target)


def _stored(name: str) -> torch.dtype:
    """How torch stores a narrow float."""
    return next((dtype for dtype, known in OF_TORCH.items() if known == name), torch.uint8)


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
