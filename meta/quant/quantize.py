"""npu_quantize: what may be passed, and what comes back.

Multiplying (div_mode=False), scales are one-dimensional, or have the input's rank with every size but the
axis's 1; zero_points are like scales. The axis is -2, or anything above it, which all mean the last one.
Results are int8, or int32 at 1/8 of the last dimension. Dividing, scales and zero_points are one-
dimensional and any axis will do; results are int8, uint8 or int32. In both the parameters are one element
or as many as the axis has positions.

On Ascend 950 results are also float8_e4m3fn, float8_e5m2 or, in uint8, HiFloat8; dividing scales are also float16, and
zero points beside them float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import INT4, INT8, INT32, NARROW, UINT8, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, guard_or_false
from graph_quant.reference.quant.quantize import quantize as reference
from torch import Tensor

DIVIDING_SCALES = (torch.float32, torch.bfloat16)
DIVIDING_ZERO_POINTS = (torch.int8, torch.uint8, torch.int32, torch.bfloat16)
DIVIDING_ZERO_POINTS_950 = (*DIVIDING_ZERO_POINTS, torch.float32)


@dataclass(frozen=True)
class QuantizePlan(Plan):
    """``along`` is the axis as a negative index."""

    destination: Destination
    along: int
    divide: bool


@operator("npu_quantize", reference=reference, chips=A2_A3_950)
def quantize(
    rules: Rules,
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    dtype: torch.dtype | int,
    axis: int,
    div_mode: bool,
) -> QuantizePlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    plan = _check_dividing if div_mode else _check_multiplying
    destination, along = plan(rules, x, scales, zero_points, dtype, axis)
    result = Result(destination.stored_shape(x.shape), destination.storage)
    return QuantizePlan((result,), destination, along, div_mode)


def _check_dividing(
    rules: Rules, x: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: torch.dtype | int, axis: int
) -> tuple[Destination, int]:
    why = " with div_mode=True"
    if rules.destination("dtype", dtype, (INT8, UINT8, INT32, INT4, *NARROW)) is INT4:
        rules.refuse("dtype torch.quint4x2 needs div_mode=False, got div_mode=True")
    is_950 = rules.chip is ASCEND_950
    destination = rules.destination("dtype", dtype, (INT8, UINT8, INT32, *(NARROW if is_950 else ())))
    rules.dtype("scales", scales, FLOATS if is_950 else DIVIDING_SCALES, why)
    rules.rank("scales", scales, 1, why=why)
    if zero_points is not None:
        allowed = DIVIDING_ZERO_POINTS_950 if is_950 else DIVIDING_ZERO_POINTS
        rules.dtype("zero_points", zero_points, allowed, why)
        rules.rank("zero_points", zero_points, 1, why=why)
        rules.equal("zero_points.size(0)", zero_points.size(0), "scales.size(0)", scales.size(0))
    if rules.is_eager:
        _check_bfloat16(rules, x, scales, zero_points)
    within = -x.dim() <= axis < x.dim()
    if not within and guard_or_false(scales.size(0) == 1):  # with one scale the device ignores the axis
        return destination, -1
    rules.require(within, lambda: f"axis must lie in [{-x.dim()}, {x.dim() - 1}], got {axis}")
    rules.one_or("scales.size(0)", scales.size(0), f"input.size({axis})", x.size(axis))
    return destination, axis if axis < 0 else axis - x.dim()


def _check_bfloat16(rules: Rules, x: Tensor, scales: Tensor, zero_points: Tensor | None) -> None:
    """Require that all tensors are bfloat16 if a parameter is, as the kernel does."""
    inputs = {"input": x, "scales": scales, "zero_points": zero_points}
    first = next((name for name in ("zero_points", "scales") if _is_bfloat16(inputs[name])), None)
    for name, tensor in inputs.items():
        if first is not None and tensor is not None and not _is_bfloat16(tensor):
            rules.refuse(
                f"{name} must be torch.bfloat16 when run eagerly, as {first} is, got {tensor.dtype}; convert one of "
                "them first, or compile: a graph converts it"
            )


def _is_bfloat16(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == torch.bfloat16


def _check_multiplying(
    rules: Rules, x: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: torch.dtype | int, axis: int
) -> tuple[Destination, int]:
    destination = rules.destination("dtype", dtype, (INT8, INT4, *(NARROW if rules.chip is ASCEND_950 else ())))
    lowest = max(-2, -x.dim())
    rules.require(lowest <= axis < x.dim(), lambda: f"axis must lie in [{lowest}, {x.dim() - 1}], got {axis}")
    axis = min(axis, -1)
    rules.dtype("scales", scales, FLOATS)
    if x.dtype != torch.float32:
        rules.same_dtype_eagerly("scales", scales, "input", x)
    rules.require(
        scales.dim() in (1, x.dim()),
        lambda: f"scales must have 1 dimension or {x.dim()}, as input has, got {list(scales.shape)}",
    )
    for dim in range(-scales.dim(), 0):
        if scales.dim() == 1 or dim == axis:
            rules.one_or(f"scales.size({dim})", scales.size(dim), f"input.size({axis})", x.size(axis))
        else:
            rules.equal(f"scales.size({dim})", scales.size(dim), "1 (only the axis may be longer)", 1)
    if zero_points is not None:
        rules.dtype("zero_points", zero_points, (scales.dtype,), ", the dtype of scales")
        rules.rank("zero_points", zero_points, scales.dim(), why=", as scales has")
        for dim in range(scales.dim()):
            rules.equal(f"zero_points.size({dim})", zero_points.size(dim), f"scales.size({dim})", scales.size(dim))
    rules.packable("input.size(-1)", x.size(-1), destination)
    return destination, axis
