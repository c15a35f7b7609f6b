"""npu_moe_init_routing_v2 becomes MoeInitRoutingV3, always told its range: upstream passes None for an empty one."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_moe_init_routing_v2")
def lower(
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: int,
    expert_tokens_num_type: int,
    expert_tokens_num_flag: bool,
    quant_mode: int,
    active_expert_range: Sequence[int],
    row_idx_type: int,
) -> tuple[Tensor, ...]:
    """The GE node of one call."""
    results: tuple[Tensor, ...] = ge.MoeInitRoutingV3(
        x,
        expert_idx,
        scale,
        offset,
        active_num=active_num,
        expert_capacity=expert_capacity,
        expert_num=expert_num,
        drop_pad_mode=drop_pad_mode,
        expert_tokens_num_type=expert_tokens_num_type,
        expert_tokens_num_flag=expert_tokens_num_flag,
        quant_mode=quant_mode,
        active_expert_range=list(active_expert_range) or [0, expert_num],
        row_idx_type=row_idx_type,
    )
    return results
