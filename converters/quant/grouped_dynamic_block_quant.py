"""npu_grouped_dynamic_block_quant becomes GroupedDynamicBlockQuant, whose HiFloat8 a Bitcast makes uint8."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.meta.quant.grouped_dynamic_block_quant import GroupedBlockPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_grouped_dynamic_block_quant")
def lower(
    plan: GroupedBlockPlan,
    x: Tensor,
    group_list: Tensor,
    min_scale: float,
    round_mode: str,
    row_block_size: int,
    col_block_size: int,
    dst_type_max: float,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    y, scale = ge.GroupedDynamicBlockQuant(
        x,
        group_list,
        min_scale=min_scale,
        round_mode=round_mode,
        dst_type=plan.destination.ge_attr,
        row_block_size=row_block_size,
        col_block_size=col_block_size,
        dst_type_max=dst_type_max,
    )
    return stored(y, plan.destination, leading=[0] * (x.rank - 1)), scale
