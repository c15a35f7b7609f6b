"""npu_group_quant becomes GroupQuant, and for int4 the three nodes that pack its result."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.meta.quant.group_quant import GroupQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_group_quant")
def lower(plan: GroupQuantPlan, x: Tensor, scale: Tensor, group_index: Tensor, offset: Tensor | None) -> Tensor:
    """The GE nodes of one call."""
    y = ge.GroupQuant(x, scale, group_index, offset, dst_type=plan.destination.ge_attr)
    return stored(y, plan.destination, leading=[0])
