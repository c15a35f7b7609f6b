"""npu_swiglu_quant becomes SwiGluQuant, for which TorchAir has no function."""

from __future__ import annotations

from graph_quant.converters.lowering import PROTO_FLOAT, lowers
from graph_quant.ge.dtypes import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.activation.swiglu_quant import swiglu_quant
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers(swiglu_quant)
def lower(
    x: Tensor,
    smooth_scales: Tensor,
    offsets: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    group_list_type: int,
) -> tuple[Tensor, Tensor]:
    """The GE node of one call."""
    y, scale = ge_op(
        op_type="SwiGluQuant",
        inputs={"x": x, "smooth_scales": smooth_scales, "offsets": offsets, "group_index": group_index},
        outputs=["y", "scale"],
        attrs={
            "activate_left": attr.Bool(activate_left),
            "quant_mode": attr.Str("dynamic" if quant_mode else "static"),
            "group_list_type": attr.Int(group_list_type),
            "dst_type": attr.Int(TO_ATTRIBUTE["int8"]),
        },
    )
    y.desc.dtype, scale.desc.dtype = TO_DESC["int8"], PROTO_FLOAT
    return y, scale
