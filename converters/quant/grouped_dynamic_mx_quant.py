"""npu_grouped_dynamic_mx_quant becomes GroupedDynamicMxQuant; float4 and scales become bytes by Bitcasts."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.reference.quant.mx_blocks import MxRule
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_grouped_dynamic_mx_quant")
def lower(x: Tensor, group_index: Tensor, rule: MxRule) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    y, mxscale = ge.GroupedDynamicMxQuant(
        x,
        group_index,
        round_mode=rule.round_mode,
        dst_type=TO_ATTRIBUTE[rule.target.name],
        blocksize=rule.block_size,
        scale_alg=rule.scale_alg,
        dst_type_max=0.0,
    )
    mxscale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, rule.target, x.rank), in_bytes(mxscale)
