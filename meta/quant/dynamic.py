"""The rules that symmetric and asymmetric dynamic quantisation share, and the shapes of their results."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from graph_quant import chip
from graph_quant.destination import HIFLOAT8, INT4, INT8, NARROW, Destination
from graph_quant.meta.operator import Plan, Result
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.quant.dynamic import MODES, PERCHANNEL, PERTENSOR, PERTOKEN
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
MOST_EXPERTS = 1024


@dataclass(frozen=True)
class DynamicPlan(Plan):
    """``has_modes`` if the chip's kernel supports modes other than pertoken."""

    op: str
    destination: Destination
    mode: str
    dst_type_max: float
    has_modes: bool


def plan(
    rules: Rules,
    x: Tensor,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    dst_type: torch.dtype | int | None,
    quant_mode: str,
    dst_type_max: float,
    *,
    parameters: int,
) -> DynamicPlan:
    """The plan of a call that the documents allow, with ``parameters`` results besides the quantised one."""
    rules.dtype("input", x, HALVES)
    rules.rank("input", x, 2, 8)
    rules.require(quant_mode in MODES, lambda: f"quant_mode must be one of {', '.join(MODES)}, got {quant_mode!r}")
    rules.require(
        math.isfinite(dst_type_max) and dst_type_max >= 0,
        lambda: f"dst_type_max must be 0 or a positive number, got {dst_type_max}",
    )
    if group_index is not None:
        _check_groups(rules, x, smooth_scales, group_index, quant_mode)
    elif smooth_scales is not None:
        axis = -2 if quant_mode == PERCHANNEL else -1
        rules.dtype("smooth_scales", smooth_scales, HALVES)
        rules.same_dtype_eagerly("smooth_scales", smooth_scales, "input", x)
        rules.rank("smooth_scales", smooth_scales, 1, why=" without group_index")
        rules.equal("smooth_scales.size(0)", smooth_scales.size(0), f"input.size({axis})", x.size(axis))
    is_950 = rules.chip is chip.ASCEND_950
    destination = rules.destination("dst_type", dst_type, (INT8, INT4, *NARROW) if is_950 else (INT8, INT4))
    if destination is HIFLOAT8:
        rules.require(
            dst_type_max <= HIFLOAT8.high,
            lambda: f"dst_type_max must be at most {HIFLOAT8.high} for HiFloat8, got {dst_type_max}",
        )
    rules.packable("input.size(-1)", x.size(-1), destination)
    y = Result(destination.stored_shape(x.shape), destination.storage)
    parameter = Result(_parameter_shape(x, quant_mode), torch.float32)
    return DynamicPlan((y, *[parameter] * parameters), rules.op, destination, quant_mode, dst_type_max, is_950)


def _check_groups(
    rules: Rules,
    x: Tensor,
    smooth_scales: Tensor | None,
    group_index: Tensor,
    quant_mode: str,
) -> None:
    rules.require(
        quant_mode == PERTOKEN, lambda: f"group_index needs quant_mode 'pertoken', got quant_mode {quant_mode!r}"
    )
    if smooth_scales is None:
        rules.refuse("group_index needs smooth_scales of one row for each group, got None")
    rules.dtype("smooth_scales", smooth_scales, HALVES)
    rules.same_dtype_eagerly("smooth_scales", smooth_scales, "input", x)
    rules.rank("smooth_scales", smooth_scales, 2, why=" with group_index")
    experts = smooth_scales.size(0)
    rules.at_least("smooth_scales.size(0)", experts, 1)
    rules.require(experts <= MOST_EXPERTS, lambda: f"smooth_scales.size(0) must be at most 1024, got {experts}")
    rules.equal("smooth_scales.size(1)", smooth_scales.size(1), "input.size(-1)", x.size(-1))
    rules.dtype("group_index", group_index, (torch.int32,))
    rules.rank("group_index", group_index, 1)
    rules.equal("group_index.size(0)", group_index.size(0), "smooth_scales.size(0)", experts)


def _parameter_shape(x: Tensor, mode: str) -> tuple[Size, ...]:
    """The shape of scale and offset: one element per row, per column or per tensor."""
    if mode == PERTENSOR:
        return (1,)
    return tuple(x.shape[:-1]) if mode == PERTOKEN else (*x.shape[:-2], x.shape[-1])
