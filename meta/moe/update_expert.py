"""npu_moe_update_expert: what may be passed, and what comes back.

expert_ids (tokens, K) is int32 or int64, at most 512 tokens, K from 1 to 16 and not above the number of experts.
eplb_table (experts, F) is int32, fewer than 1024 experts. expert_scales (tokens, K) and pruning_threshold, (K,) or
(1, K), are passed together, and active_mask (tokens,) only with them. balance_mode 0 requires the rank and the number
of ranks, 2 to 768.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.moe.update_expert import update_expert as reference
from torch import Tensor

MOST_TOKENS, MOST_CHOSEN, MOST_EXPERTS = 512, 16, 1023
RANKS = (2, 768)


@operator("npu_moe_update_expert", reference=reference)
def update_expert(
    rules: Rules,
    expert_ids: Tensor,
    eplb_table: Tensor,
    expert_scales: Tensor | None,
    pruning_threshold: Tensor | None,
    active_mask: Tensor | None,
    local_rank_id: int,
    world_size: int,
    balance_mode: int,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("expert_ids", expert_ids, (torch.int32, torch.int64))
    rules.rank("expert_ids", expert_ids, 2)
    rules.dtype("eplb_table", eplb_table, (torch.int32,))
    rules.rank("eplb_table", eplb_table, 2)
    tokens, chosen = expert_ids.shape
    _check_range(rules, "expert_ids.size(0)", tokens, MOST_TOKENS)
    _check_range(rules, "expert_ids.size(1)", chosen, MOST_CHOSEN)
    _check_range(rules, "eplb_table.size(0)", eplb_table.size(0), MOST_EXPERTS)
    rules.require(
        chosen <= eplb_table.size(0),
        lambda: f"expert_ids.size(1) must be at most eplb_table.size(0), got {chosen} and {eplb_table.size(0)}",
    )
    rules.at_least("eplb_table.size(1)", eplb_table.size(1), 2)
    rules.one_of("balance_mode", balance_mode, (0, 1))
    if balance_mode == 0:
        _check_ranks(rules, eplb_table.size(1), local_rank_id, world_size)
    _check_pruning(rules, expert_ids, expert_scales, pruning_threshold, active_mask)
    return Plan((Result((tokens, chosen), expert_ids.dtype), Result((tokens, chosen), torch.bool)))


def _check_range(rules: Rules, name: str, size: int, most: int) -> None:
    rules.at_least(name, size, 1)
    rules.require(size <= most, lambda: f"{name} must be at most {most}, got {size}")


def _check_ranks(rules: Rules, columns: int, rank: int, ranks: int) -> None:
    low, high = RANKS
    rules.require(low <= ranks <= high, lambda: f"world_size must lie in [{low}, {high}], got {ranks}")
    rules.require(0 <= rank < ranks, lambda: f"local_rank_id must lie in [0, {ranks}), got {rank}")
    rules.require(
        columns <= ranks + 1, lambda: f"eplb_table.size(1) must be at most world_size + 1, got {columns} and {ranks}"
    )


def _check_pruning(
    rules: Rules, expert_ids: Tensor, scales: Tensor | None, threshold: Tensor | None, active: Tensor | None
) -> None:
    if (scales is None) != (threshold is None):
        rules.refuse("expert_scales and pruning_threshold must be given both or not at all, got one")
    if active is not None:
        if scales is None:
            rules.refuse("expert_scales must be given beside active_mask, got None")
        rules.dtype("active_mask", active, (torch.bool,))
        rules.rank("active_mask", active, 1)
        rules.equal("active_mask.size(0)", active.size(0), "expert_ids.size(0)", expert_ids.size(0))
    if scales is None or threshold is None:
        return
    rules.dtype("expert_scales", scales, FLOATS)
    rules.rank("expert_scales", scales, 2)
    for dim in (0, 1):
        rules.equal(f"expert_scales.size({dim})", scales.size(dim), f"expert_ids.size({dim})", expert_ids.size(dim))
    rules.dtype("pruning_threshold", threshold, (torch.float32,))
    rules.rank("pruning_threshold", threshold, 1, 2)
    rules.equal("pruning_threshold.size(-1)", threshold.size(-1), "expert_ids.size(1)", expert_ids.size(1))
    if threshold.dim() == 2:
        rules.equal("pruning_threshold.size(0)", threshold.size(0), "1", 1)
