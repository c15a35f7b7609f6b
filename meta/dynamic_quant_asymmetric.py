"""npu_dynamic_quant_asymmetric: what may be passed, and what comes back.

input is float16 or bfloat16 of two to eight dimensions. smooth_scales is one number for each column, (H,),
or with group_index one row for each of at most 1024 groups, (E, H); over channels it is one number for each
row. Groups are for quantisation by token alone. The result is int8 of the input's shape, or int32 at 1/8 of
the last dimension; scale and offset float32, one a token (quant_mode pertoken), one in all (pertensor) or
one a channel (perchannel).
"""

from __future__ import annotations

import torch
from graph_quant.meta import dynamic
from graph_quant.meta.rules import Rules

OPERATOR = "npu_dynamic_quant_asymmetric"
RULES = Rules(OPERATOR)


def check(
    x: torch.Tensor,
    *,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    dst_type: torch.dtype | int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> dynamic.Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    return dynamic.check(RULES, x, smooth_scales, group_index, dst_type, quant_mode, dst_type_max)


def infer(
    x: torch.Tensor,
    *,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    dst_type: torch.dtype | int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[torch.Tensor, ...]:
    """The results of a call, without their values."""
    plan = check(
        x,
        smooth_scales=smooth_scales,
        group_index=group_index,
        dst_type=dst_type,
        quant_mode=quant_mode,
        dst_type_max=dst_type_max,
    )
    return dynamic.results(x, plan, parameters=2)
