"""npu_dynamic_block_mx_quant becomes DynamicBlockMxQuant, whose results Bitcasts make bytes."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.reference.quant.mx_blocks import MxRule
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_dynamic_block_mx_quant")
def lower(input: Tensor, rule: MxRule) -> tuple[Tensor, Tensor, Tensor]:  # noqa: A002
    """The GE nodes of one call."""
    y, scale1, scale2 = ge.DynamicBlockMxQuant(
        input,
        round_mode=rule.round_mode,
        dst_type=TO_ATTRIBUTE[rule.target.name],
        scale_alg=rule.scale_alg,
        dst_type_max=rule.dst_type_max,
    )
    for scale in (scale1, scale2):
        scale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, rule.target, input.rank), in_bytes(scale1), in_bytes(scale2)
