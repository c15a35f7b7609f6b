"""ATB's _npu_group_topk: keeps the k groups of experts of each row with the largest sums of their n largest scores."""

from __future__ import annotations

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operator)
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.moe.group_topk import group_topk as reference
from torch import Tensor

MOST_EXPERTS = 1024


@operator("atb::_npu_group_topk", reference=reference)
def group_topk(rules: Rules, x: Tensor, k: int, group_num: int, n: int) -> Plan:
    """The plan of a call that the library allows; any other call is refused."""
    rules.dtype("self", x, (torch.float16, torch.bfloat16))
    rules.rank("self", x, 2)
    experts = x.size(1)
    rules.at_least("self.size(0)", x.size(0), 1)
    rules.require(
        (experts >= 1) & (experts <= MOST_EXPERTS),
        lambda: f"self.size(1) must lie in [1, {MOST_EXPERTS}], got {experts}",
    )
    rules.at_least("group_num", group_num, 1)
    rules.require(
        experts % group_num == 0, lambda: f"self.size(1) must be a multiple of group_num, got {experts} and {group_num}"
    )
    rules.require(1 <= k <= group_num, lambda: f"k must lie in [1, group_num], got {k} and {group_num}")
    # torch_npu requests sums only for n above 1; a smaller n means the largest value alone.
    rules.require(
        (n <= 1) | (n * group_num <= experts),
        lambda: f"n must be at most self.size(1) / group_num, got {n} and {experts // group_num}",
    )
    return Plan(())
