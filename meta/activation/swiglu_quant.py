"""npu_swiglu_quant: argument rules and results.

x is (…, 2N) of at most 8192 columns. smooth_scales is (G, N), or (G,) for static quantisation, where offsets has the
same shape; without group_index G is 1. The kernels always read smooth_scales, so a call without it is refused. Two int4
results (torch.quint4x2) are packed into an int8, so x.size(-1) must be a multiple of four.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT4, INT4_PAIRS, INT8, Destination, describe, find
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.swiglu_quant import swiglu_quant as compute
from torch import Tensor

_WIDEST, _MOST_GROUPS = 8192, 1024


@dataclass(frozen=True)
class SwigluQuantPlan(Plan):
    """``destination`` is the integer type of the result."""

    destination: Destination


@operator("npu_swiglu_quant", reference=compute, chips=A2_A3_950)
def swiglu_quant(
    rules: Rules,
    x: Tensor,
    smooth_scales: Tensor | None,
    offsets: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,  # noqa: ARG001
    quant_mode: int,
    group_list_type: int,
    dst_type: int | torch.dtype | None,
) -> SwigluQuantPlan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2, 8)
    width = x.size(-1)
    rules.require(width % 2 == 0, lambda: f"x.size(-1) must be even, got {width}")
    rules.at_least("x.size(-1)", width, 2)
    rules.require(width <= _WIDEST, lambda: f"x.size(-1) must be at most {_WIDEST}, got {width}")
    rules.require(quant_mode in (0, 1), lambda: f"quant_mode must be 0 or 1, got {quant_mode}")
    rules.require(group_list_type in (0, 1), lambda: f"group_list_type must be 0 or 1, got {group_list_type}")
    destination = _destination(rules, dst_type)
    if destination.is_packed:
        rules.require(width % 4 == 0, lambda: f"x.size(-1) must be a multiple of 4 for int4, got {width}")
    groups = 1
    if group_index is not None:
        rules.dtype("group_index", group_index, (torch.int32,))
        rules.rank("group_index", group_index, 1)
        groups = group_index.size(0)
        rules.at_least("group_index.size(0)", groups, 1)
        most = groups <= _MOST_GROUPS
        rules.require(most, lambda: f"group_index.size(0) must be at most {_MOST_GROUPS}, got {groups}")
    if smooth_scales is None:
        rules.refuse("smooth_scales must be given, the kernels read it always, got None")
    rules.dtype("smooth_scales", smooth_scales, (torch.float32,))
    rules.rank("smooth_scales", smooth_scales, 2 if quant_mode else 1, 2)
    rules.equal("smooth_scales.size(0)", smooth_scales.size(0), "the groups", groups)
    if smooth_scales.dim() > 1:
        rules.equal("smooth_scales.size(1)", smooth_scales.size(1), "x.size(-1) // 2", width // 2)
    if not quant_mode:
        if offsets is None:
            rules.refuse("offsets must be given for static quantisation, got None")
        rules.dtype("offsets", offsets, (torch.float32,))
        rules.rank("offsets", offsets, smooth_scales.dim())
        for dim in range(offsets.dim()):
            size = smooth_scales.size(dim)
            rules.equal(f"offsets.size({dim})", offsets.size(dim), f"smooth_scales.size({dim})", size)
    leading = x.shape[:-1]
    y = Result(destination.stored_shape((*leading, width // 2)), torch.int8)
    return SwigluQuantPlan((y, Result(tuple(leading), torch.float32)), destination)


def _destination(rules: Rules, dst_type: int | torch.dtype | None) -> Destination:
    is_known = dst_type in (None, torch.int8, torch.quint4x2) or isinstance(dst_type, int)
    destination = find(dst_type) if is_known else None
    if destination not in (INT8, INT4):
        rules.refuse(f"dst_type must be None, torch.int8 or torch.quint4x2, got {describe(dst_type)}")
    return INT4_PAIRS if destination is INT4 else INT8
