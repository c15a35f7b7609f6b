"""npu_swiglu_mx_quant becomes SwigluMxQuant, and along two axes SwigluMxQuantWithDualAxis, which TorchAir lacks."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.activation.swiglu_mx_quant import SwigluMxPlan
from graph_quant.reference.quant.mx_blocks import MxRule
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_swiglu_mx_quant")
def lower(
    plan: SwigluMxPlan,
    x: Tensor,
    group_index: Tensor | None,
    activate_left: bool,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    rule = plan.rule
    y, mxscale = ge.SwigluMxQuant(
        x,
        group_index,
        activate_dim=plan.along,
        activate_left=activate_left,
        swiglu_mode=swiglu_mode,
        clamp_limit=clamp_limit,
        glu_alpha=glu_alpha,
        glu_bias=glu_bias,
        axis=plan.axis,
        dst_type=TO_ATTRIBUTE[rule.target.name],
        round_mode=rule.round_mode,
        scale_alg=rule.scale_alg,
    )
    mxscale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, rule.target, x.rank), in_bytes(mxscale)


@lowers("npu_swiglu_mx_quant_with_dual_axis")
def lower_dual(
    x: Tensor, group_index: Tensor | None, activate_left: bool, rule: MxRule
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The GE nodes of one call."""
    y1, mxscale1, y2, mxscale2 = ge_op(
        op_type="SwigluMxQuantWithDualAxis",
        inputs={"x": x, "group_index": group_index},
        outputs=["y1", "mx_scale1", "y2", "mx_scale2"],
        attrs={
            "activate_left": attr.Bool(activate_left),
            "round_mode": attr.Str(rule.round_mode),
            "scale_alg": attr.Int(rule.scale_alg),
            "dst_type": attr.Int(TO_ATTRIBUTE[rule.target.name]),
        },
    )
    for scale in (mxscale1, mxscale2):
        scale.desc.dtype = TO_DESC["float8_e8m0"]
    one, other = (stored_values(y, rule.target, x.rank) for y in (y1, y2))
    return one, in_bytes(mxscale1), other, in_bytes(mxscale2)
