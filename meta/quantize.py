"""npu_quantize: what may be passed, and what comes back.

Multiplying (div_mode=False), scales are one-dimensional, or have the input's rank with every size but the
axis's 1; zero_points are like scales. The axis is -2, or anything above it, which all mean the last one.
Results are int8, or int32 at 1/8 of the last dimension. Dividing, scales and zero_points are one-
dimensional and any axis will do; results are int8, uint8 or int32. In both the parameters are one element
or as many as the axis has positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import INT4, INT8, INT32, UINT8, Destination
from graph_quant.meta.rules import FLOATS, Rules, empty

OPERATOR = "npu_quantize"
RULES = Rules(OPERATOR)
DIVIDING_SCALES = (torch.float32, torch.bfloat16)
DIVIDING_ZERO_POINTS = (torch.int8, torch.uint8, torch.int32, torch.bfloat16)


@dataclass(frozen=True)
class Plan:
    """How the call is carried out: ``axis`` is negative and counts from the last dimension."""

    destination: Destination
    axis: int
    divide: bool


def check(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    dtype: torch.dtype | int,
    axis: int = 1,
    div_mode: bool = True,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    RULES.one_device(input=x, scales=scales, zero_points=zero_points)
    RULES.dtype("input", x, FLOATS)
    RULES.rank("input", x, 1, 8)
    plan = _check_dividing if div_mode else _check_multiplying
    return plan(x, scales, zero_points, dtype, axis)


def _check_dividing(
    x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, dtype: torch.dtype | int, axis: int
) -> Plan:
    why = " with div_mode=True"
    if RULES.destination("dtype", dtype, (INT8, UINT8, INT32, INT4)) is INT4:
        RULES.refuse("dtype torch.quint4x2 needs div_mode=False, got div_mode=True")
    destination = RULES.destination("dtype", dtype, (INT8, UINT8, INT32))
    RULES.require(-x.dim() <= axis < x.dim(), lambda: f"axis must lie in [{-x.dim()}, {x.dim() - 1}], got {axis}")
    RULES.dtype("scales", scales, DIVIDING_SCALES, why)
    RULES.rank("scales", scales, 1, why=why)
    RULES.one_or("scales.size(0)", scales.size(0), f"input.size({axis})", x.size(axis))
    if zero_points is not None:
        RULES.dtype("zero_points", zero_points, DIVIDING_ZERO_POINTS, why)
        RULES.rank("zero_points", zero_points, 1, why=why)
        RULES.one_or("zero_points.size(0)", zero_points.size(0), f"input.size({axis})", x.size(axis))
    return Plan(destination, axis if axis < 0 else axis - x.dim(), divide=True)


def _check_multiplying(
    x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, dtype: torch.dtype | int, axis: int
) -> Plan:
    destination = RULES.destination("dtype", dtype, (INT8, INT4))
    lowest = max(-2, -x.dim())
    RULES.require(lowest <= axis < x.dim(), lambda: f"axis must lie in [{lowest}, {x.dim() - 1}], got {axis}")
    axis = min(axis, -1)
    RULES.dtype("scales", scales, FLOATS)
    RULES.require(
        scales.dim() in (1, x.dim()),
        lambda: f"scales must have 1 dimension or {x.dim()}, as input has, got {list(scales.shape)}",
    )
    for dim in range(-scales.dim(), 0):
        if scales.dim() == 1 or dim == axis:
            RULES.one_or(f"scales.size({dim})", scales.size(dim), f"input.size({axis})", x.size(axis))
        else:
            RULES.equal(f"scales.size({dim})", scales.size(dim), "1 (only the axis may be longer)", 1)
    if zero_points is not None:
        RULES.dtype("zero_points", zero_points, (scales.dtype,), ", the dtype of scales")
        RULES.rank("zero_points", zero_points, scales.dim(), why=", as scales has")
        for dim in range(scales.dim()):
            RULES.equal(f"zero_points.size({dim})", zero_points.size(dim), f"scales.size({dim})", scales.size(dim))
    RULES.packable("input.size(-1)", x.size(-1), destination)
    return Plan(destination, axis, divide=False)


def infer(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    dtype: torch.dtype | int,
    axis: int = 1,
    div_mode: bool = True,
) -> torch.Tensor:
    """The result of a call, without its values."""
    destination = check(x, scales, zero_points, dtype, axis, div_mode).destination
    return empty(x, destination.stored_shape(x.shape), destination.storage)
