"""ATB's npu_fused_add_topk_div: the k best experts of each token from the best groups, and their weights.

x is (tokens, experts), add_num (experts,) of its dtype. With enable_expert_mapping, mapping_num (experts,) is the
number of copies of each expert and mapping_table (experts, copies) holds them: tokens use them in turn.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.moe.fused_add_topk_div import fused_add_topk_div as reference
from graph_quant.reference.moe.fused_add_topk_div import fused_add_topk_div_out as writing
from torch import Tensor

ACTIVATION = "activation_sigmoid"
MOST_COPIES = 128
# The kernel sorts 32 values at once: the experts of a group, or the groups. Only eight groups may have more experts.
SORTED = 32
WIDE_GROUPS = 8


@operator("atb::npu_fused_add_topk_div", reference=reference)
def fused_add_topk_div(
    rules: Rules,
    x: Tensor,
    add_num: Tensor,
    mapping_num: Tensor | None,
    mapping_table: Tensor | None,
    activation_type: str | None,
    group_num: int,
    group_topk: int,
    n: int,
    k: int,
    is_norm: bool,  # noqa: ARG001
    scale: float,  # noqa: ARG001
    enable_expert_mapping: bool,
) -> Plan:
    """The plan of a call that the library allows; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2)
    rules.dtype("add_num", add_num, (x.dtype,), ", the dtype of x")
    rules.rank("add_num", add_num, 1)
    experts = x.size(1)
    rules.equal("add_num.size(0)", add_num.size(0), "x.size(1)", experts)
    rules.one_of("activation_type", activation_type, (None, ACTIVATION))
    for name, count in (("group_num", group_num), ("group_topk", group_topk), ("n", n), ("k", k)):
        rules.at_least(name, count, 1)
    rules.require(group_topk <= group_num, lambda: f"group_topk must be at most group_num, got {group_topk}")
    rules.require(
        experts % group_num == 0, lambda: f"x.size(1) must be a multiple of group_num, got {experts} and {group_num}"
    )
    rules.require(experts >= k, lambda: f"k must be at most x.size(1), got {k} and {experts}")
    rules.require(
        experts >= group_num * n, lambda: f"n must be at most x.size(1) / group_num, got {n} and {experts // group_num}"
    )
    most = SORTED * WIDE_GROUPS if group_num == WIDE_GROUPS else SORTED
    rules.require(
        experts <= most,
        lambda: f"x.size(1) must be at most {most} in {group_num} groups, got {experts}",
    )
    if enable_expert_mapping:
        _copies(rules, x, mapping_num, mapping_table)
    return Plan((Result((x.size(0), k), torch.float32), Result((x.size(0), k), torch.int32)))


def _copies(rules: Rules, x: Tensor, mapping_num: Tensor | None, mapping_table: Tensor | None) -> None:
    for name, tensor, dims in (("mapping_num", mapping_num, 1), ("mapping_table", mapping_table, 2)):
        if tensor is None:
            rules.refuse(f"{name} must be given with enable_expert_mapping, got None")
        rules.dtype(name, tensor, (torch.int32,))
        rules.rank(name, tensor, dims)
        rules.equal(f"{name}.size(0)", tensor.size(0), "x.size(1)", x.size(1))
    assert mapping_table is not None
    copies = mapping_table.size(1)
    rules.require(
        (copies >= 1) & (copies <= MOST_COPIES),
        lambda: f"mapping_table.size(1) must lie in [1, {MOST_COPIES}], got {copies}",
    )


def _plan_into(rules: Rules, *values: Any) -> Plan:
    *inputs, y, indices = values
    assert fused_add_topk_div.rules is not None
    plan = fused_add_topk_div.rules(rules, *inputs)
    for name, tensor, result in zip(("y", "indices"), (y, indices), plan.results, strict=True):
        assert isinstance(result, Result)
        rules.dtype(name, tensor, (result.dtype,))
        rules.rank(name, tensor, 2)
        for dim, size in enumerate(result.shape):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), ("x.size(0)", "k")[dim], size)
    return Plan(("y", "indices"))


operator("atb::npu_fused_add_topk_div.out", reference=writing)(
    with_signature(("rules", *fused_add_topk_div.arguments, "y", "indices"), _plan_into)
)
