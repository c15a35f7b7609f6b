"""npu_swiglu_mx_quant and npu_swiglu_mx_quant_with_dual_axis: argument rules and results. Only Ascend 950 has them.

x is float16 or bfloat16, of two to seven dimensions, or a matrix for two axes. Halves, and blocks of 32, are along the
last axis or the one before it. group_index has the numbers of rows of 1 to 256 groups, or for two axes the ends of the
groups; with axis -2 x is a matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.quant.dynamic_mx_quant import (
    MxPlan,
    check_rounding,
    find_target,
    stored_scales,
    stored_values,
)
from graph_quant.meta.rules import Rules, Size
from graph_quant.narrow_floats import NarrowFloat
from graph_quant.reference.activation.swiglu_mx_quant import swiglu_mx_quant as reference
from graph_quant.reference.activation.swiglu_mx_quant import swiglu_mx_quant_with_dual_axis as dual_reference
from graph_quant.reference.quant.mx_blocks import MxRule
from graph_quant.refusals import UndescribedError
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
_BLOCK, _MOST_GROUPS = 32, 256


@dataclass(frozen=True)
class SwigluMxPlan(MxPlan):
    """``along`` is the axis of the halves and ``axis`` that of the blocks, as negative numbers."""

    along: int
    axis: int


@operator("npu_swiglu_mx_quant", reference=reference, chips=(ASCEND_950,))
def swiglu_mx_quant(
    rules: Rules,
    x: Tensor,
    group_index: Tensor | None,
    activate_dim: int,
    activate_left: bool,  # noqa: ARG001
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
    group_mode: int,
    axis: int,
    dst_type: int | torch.dtype,
    round_mode: str,
    scale_alg: int,
    max_dtype_value: float,
) -> SwigluMxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x", x, HALVES)
    rules.rank("x", x, 2, 7)
    rules.not_empty("x", x)
    along, blocks = (_from_end(rules, name, dim, x) for name, dim in (("activate_dim", activate_dim), ("axis", axis)))
    rules.one_of("swiglu_mode", swiglu_mode, (0, 1) if along == -1 else (0,), "" if along == -1 else " of another axis")
    rules.require(
        math.isfinite(clamp_limit) and clamp_limit > 0,
        lambda: f"clamp_limit must be a positive number, got {clamp_limit}",
    )
    for name, value in (("glu_alpha", glu_alpha), ("glu_bias", glu_bias)):
        rules.require(math.isfinite(value), lambda name=name, value=value: f"{name} must be finite, got {value}")  # type: ignore[misc]
    rules.require(max_dtype_value >= 0, lambda: f"max_dtype_value must not be negative, got {max_dtype_value}")
    target = _check_format(rules, dst_type, round_mode, scale_alg)
    shape = _halve(rules, x, along)
    if group_index is not None:
        _check_groups(rules, x, group_index, group_mode, along, blocks)
    y = stored_values(rules, shape, target, "half of x")
    scales = list(stored_scales(shape, blocks, _BLOCK))
    if group_index is not None and blocks == -2:
        scales[0] = shape[0] // (2 * _BLOCK) + group_index.size(0)
    rule = MxRule(target, scale_alg, round_mode, keeps_tiny=True)
    return SwigluMxPlan((y, Result(tuple(scales), torch.uint8)), rule, along, blocks)


def _check_format(rules: Rules, dst_type: int | torch.dtype, round_mode: str, scale_alg: int) -> NarrowFloat:
    target = find_target(rules, "dst_type", dst_type)
    rules.one_of("scale_alg", scale_alg, (0, 1) if target.dtype is not None else (0,), f" for {target.name}")
    check_rounding(rules, target, round_mode, scale_alg)
    return target


def _from_end(rules: Rules, name: str, dim: int, x: Tensor) -> int:
    allowed = (-2, -1, x.dim() - 2, x.dim() - 1)
    rules.require(dim in allowed, lambda: f"{name} must be the last axis or the one before it, got {dim}")
    return dim if dim < 0 else dim - x.dim()


def _halve(rules: Rules, x: Tensor, along: int) -> tuple[Size, ...]:
    shape = list(x.shape)
    rules.require(shape[along] % 2 == 0, lambda: f"x.size({along}) must be even, got {x.size(along)}")
    shape[along] = shape[along] // 2
    return tuple(shape)


def _check_groups(rules: Rules, x: Tensor, group_index: Tensor, group_mode: int, along: int, blocks: int) -> None:
    rules.dtype("group_index", group_index, (torch.int64, torch.int32))
    rules.rank("group_index", group_index, 1)
    groups = group_index.size(0)
    rules.at_least("group_index.size(0)", groups, 1)
    rules.require(groups <= _MOST_GROUPS, lambda: f"group_index.size(0) must be at most 256, got {groups}")
    rules.one_of("group_mode", group_mode, (0,), ": the kernel reads counts")
    if along == -2:
        raise UndescribedError(f"{rules.op}: group_index with activate_dim -2 is not described yet")
    if blocks == -2:
        rules.rank("x", x, 2, why=" with group_index and axis -2")


@operator("npu_swiglu_mx_quant_with_dual_axis", reference=dual_reference, chips=(ASCEND_950,))
def swiglu_mx_quant_with_dual_axis(
    rules: Rules,
    x: Tensor,
    group_index: Tensor | None,
    activate_left: bool,  # noqa: ARG001
    round_mode: str,
    scale_alg: int,
    dst_type: int | torch.dtype,
    dst_type_max: float,  # noqa: ARG001 (the kernel does not read it)
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x", x, HALVES)
    rules.rank("x", x, 2)
    rules.not_empty("x", x)
    target = _check_format(rules, dst_type, round_mode, scale_alg)
    shape = _halve(rules, x, -1)
    y = stored_values(rules, shape, target, "half of x")
    scales = [stored_scales(shape, axis, _BLOCK) for axis in (-1, -2)]
    if group_index is not None:
        rules.dtype("group_index", group_index, (torch.int64,))
        rules.rank("group_index", group_index, 1)
        rules.at_least("group_index.size(0)", group_index.size(0), 1)
        scales[1] = (shape[0] // (2 * _BLOCK) + group_index.size(0), *scales[1][1:])
    one, other = (Result(scale, torch.uint8) for scale in scales)
    return MxPlan((y, one, y, other), MxRule(target, scale_alg, round_mode, keeps_tiny=True))
