"""npu_anti_quant becomes AscendAntiQuantV2; int4 that arrive as int32 are unpacked by Bitcast and Reshape."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, unpacked
from graph_quant.meta.quant.anti_quant import AntiQuantPlan, anti_quant
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers(anti_quant)
def lower(plan: AntiQuantPlan, x: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
    """The GE nodes of one call."""
    elements = unpacked(x, x.rank) if plan.int4 else x
    y = ge.AscendAntiQuantV2(elements, scale, offset, dst_type=plan.output.ge_attr)
    y.desc.dtype = plan.output.ge_desc
    return y
