"""npu_moe_init_routing_v2 becomes MoeInitRoutingV3 with an explicit range: upstream passes None for an empty one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_quant.converters.lowering import lowers, one_node
from graph_quant.meta.operator import Plan
from torchair.ge._ge_graph import Tensor


@lowers("npu_moe_init_routing_v2")
def lower(plan: Plan, expert_num: int, active_expert_range: Sequence[int], **others: Any) -> tuple[Tensor, ...]:
    """The GE node of one call."""
    named = list(active_expert_range) or [0, expert_num]
    make = one_node("MoeInitRoutingV3")
    results: tuple[Tensor, ...] = make(plan, expert_num=expert_num, active_expert_range=named, **others)
    return results
