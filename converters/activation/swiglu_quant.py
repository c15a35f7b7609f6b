"""npu_swiglu_quant becomes SwiGluQuant, for which TorchAir has no function; Bitcast puts two int4 into an int8."""

from __future__ import annotations

from graph_quant.converters.lowering import PROTO_FLOAT, lowers
from graph_quant.destination import INT8
from graph_quant.meta.activation.swiglu_quant import SwigluQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_swiglu_quant")
def lower(
    plan: SwigluQuantPlan,
    x: Tensor,
    smooth_scales: Tensor,
    offsets: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    group_list_type: int,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    y, scale = ge_op(
        op_type="SwiGluQuant",
        inputs={"x": x, "smooth_scales": smooth_scales, "offsets": offsets, "group_index": group_index},
        outputs=["y", "scale"],
        attrs={
            "activate_left": attr.Bool(activate_left),
            "quant_mode": attr.Str("dynamic" if quant_mode else "static"),
            "group_list_type": attr.Int(group_list_type),
            "dst_type": attr.Int(plan.destination.ge_attr),
        },
    )
    y.desc.dtype, scale.desc.dtype = plan.destination.ge_desc, PROTO_FLOAT
    if plan.destination.is_packed:
        pairs = ge.Reshape(y, [0] * (x.rank - 1) + [-1, plan.destination.packing])
        pairs.desc.dtype = plan.destination.ge_desc
        y = ge.Bitcast(pairs, type=INT8.ge_attr)
        y.desc.dtype = INT8.ge_desc
    return y, scale
