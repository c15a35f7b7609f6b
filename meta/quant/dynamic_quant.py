"""npu_dynamic_quant: what may be passed, and what comes back.

input is float16 or bfloat16 of two to eight dimensions. smooth_scales is one number for each column, (H,),
or with group_index one row for each of at most 1024 groups, (E, H); over channels it is one number for each
row. Groups are for quantisation by token alone. The result is int8 of the input's shape, or int32 at 1/8 of
the last dimension; scale float32, one a token (quant_mode pertoken), one in all (pertensor) or one a
channel (perchannel). On Ascend 950 it is also float8_e4m3fn, float8_e5m2 or, in uint8, HiFloat8.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import operator
from graph_quant.meta.quant import dynamic
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.dynamic_quant import dynamic_quant as reference
from torch import Tensor


@operator("npu_dynamic_quant", reference=reference, chips=A2_A3_950)
def dynamic_quant(
    rules: Rules,
    x: Tensor,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    dst_type: torch.dtype | int | None,
    quant_mode: str,
    dst_type_max: float,
) -> dynamic.DynamicPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    return dynamic.plan(rules, x, smooth_scales, group_index, dst_type, quant_mode, dst_type_max, parameters=1)
