"""npu_dynamic_mx_quant_with_dual_axis becomes DynamicMxQuantWithDualAxis, whose results Bitcasts make bytes."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.reference.quant.mx_blocks import MxRule
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_dynamic_mx_quant_with_dual_axis")
def lower(input: Tensor, rule: MxRule) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # noqa: A002
    """The GE nodes of one call."""
    y1, mxscale1, y2, mxscale2 = ge.DynamicMxQuantWithDualAxis(
        input,
        round_mode=rule.round_mode,
        dst_type=TO_ATTRIBUTE[rule.target.name],
        scale_alg=rule.scale_alg,
        dst_type_max=rule.dst_type_max,
    )
    for scale in (mxscale1, mxscale2):
        scale.desc.dtype = TO_DESC["float8_e8m0"]
    one, other = (stored_values(y, rule.target, input.rank) for y in (y1, y2))
    return one, in_bytes(mxscale1), other, in_bytes(mxscale2)
