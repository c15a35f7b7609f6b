"""npu_swiglu_quant: what may be passed, and what comes back.

x is (…, 2N) of at most 8192 columns. smooth_scales is (G, N), or (G,) for static quantisation, whose offsets are alike;
without group_index G is 1. The kernels read smooth_scales whether it is given or not, so a call without it is refused.
int4 results are not made here.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, find
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.swiglu_quant import swiglu_quant as compute
from torch import Tensor

_WIDEST, _MOST_GROUPS = 8192, 1024


@operator("npu_swiglu_quant", reference=compute)
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
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2, 8)
    width = x.size(-1)
    rules.require(width % 2 == 0, lambda: f"x.size(-1) must be even, got {width}")
    rules.at_least("x.size(-1)", width, 2)
    rules.require(width <= _WIDEST, lambda: f"x.size(-1) must be at most {_WIDEST}, got {width}")
    rules.require(quant_mode in (0, 1), lambda: f"quant_mode must be 0 or 1, got {quant_mode}")
    rules.require(group_list_type in (0, 1), lambda: f"group_list_type must be 0 or 1, got {group_list_type}")
    is_int8 = dst_type in (None, torch.int8) or (isinstance(dst_type, int) and find(dst_type) is INT8)
    rules.require(is_int8, lambda: f"dst_type must be None or int8, int4 is not made here, got {dst_type}")
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
        for place in range(offsets.dim()):
            like = smooth_scales.size(place)
            rules.equal(f"offsets.size({place})", offsets.size(place), f"smooth_scales.size({place})", like)
    leading = x.shape[:-1]
    return Plan((Result((*leading, width // 2), torch.int8), Result(tuple(leading), torch.float32)))
