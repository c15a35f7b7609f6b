"""npu_mrope becomes RopeWithSinCosCache, for which TorchAir has no converter; positions go there as int64."""

from __future__ import annotations

import torch
from graph_quant.converters.lowering import lowers
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.rope.mrope import MropePlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_mrope")
def lower(
    plan: MropePlan,
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    rotary_mode: str | None,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call; cacheMode is named only where it is not 0, for CANN before 9 has none."""
    if positions.meta.dtype != torch.int64:
        positions = ge.Cast(positions, dst_type=TO_ATTRIBUTE["int64"])
        positions.desc.dtype = TO_DESC["int64"]
    attributes = {
        "numQHeads": attr.Int(int(query.symsize[1]) // head_size),
        "numKHeads": attr.Int(int(key.symsize[1]) // head_size),
        "headSize": attr.Int(head_size),
        "mropeSection": attr.ListInt(list(plan.sections or (0, 0, 0))),
        "isNeoxStyle": attr.Bool(rotary_mode in (None, "half")),
    }
    if plan.is_interleaved:
        attributes["cacheMode"] = attr.Int(1)
    rotated_query, rotated_key = ge_op(
        op_type="RopeWithSinCosCache",
        inputs={"positions": positions, "queryIn": query, "keyIn": key, "cosSinCache": cos_sin_cache},
        outputs=["queryOut", "keyOut"],
        attrs=attributes,
    )
    for result in (rotated_query, rotated_key):
        result.desc.dtype = query.desc.dtype
    return rotated_query, rotated_key
