"""npu_moe_update_expert: maps each chosen expert to one of its replicas, and marks the choices that are kept.

A row of eplb_table holds the number of replicas of an expert, then the physical expert of each. With several replicas,
mode 0 takes the one of this rank (each replica is for ceil(world_size / count) consecutive ranks), mode 1 takes them in
turn, token by token. A choice is kept if its scale is at least the sum of the token's scales, in float32, times its
threshold, and the token is active. Without scales the device does not write the second result; here it is False.
"""

from __future__ import annotations

import torch
from graph_quant.ge import kernel
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_moe_update_expert"


@value_check
def counted(eplb_table: Tensor) -> Tensor:
    """``eplb_table``, refused where the number of replicas is 0 or above the width of the table."""
    counts, most = eplb_table[:, 0], eplb_table.size(1) - 1
    wrong = (counts < 1) | (counts > most)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise Refusal(f"{OP}: eplb_table[{row}][0] must lie in [1, {most}], got {int(counts[row])}")
    return eplb_table


@value_check
def chosen(expert_ids: Tensor, experts: int) -> Tensor:
    """``expert_ids``, refused where a value is not an expert."""
    wrong = (expert_ids < 0) | (expert_ids >= experts)
    if bool(wrong.any()):
        token, choice = (int(index) for index in wrong.nonzero()[0])
        got = int(expert_ids[token, choice])
        raise Refusal(f"{OP}: expert_ids[{token}][{choice}] must lie in [0, {experts}), got {got}")
    return expert_ids


@value_check
def leading(active_mask: Tensor) -> Tensor:
    """``active_mask``, refused where an active token follows an inactive one."""
    ahead = active_mask[1:] & ~active_mask[:-1]
    if bool(ahead.any()):
        token = int(ahead.nonzero()[0]) + 1
        raise Refusal(f"{OP}: active_mask[{token}] must be False after one that is, got True")
    return active_mask


@kernel("MoeUpdateExpert", flops=0)
def update_expert(
    expert_ids: Tensor,
    eplb_table: Tensor,
    expert_scales: Tensor | None = None,
    pruning_threshold: Tensor | None = None,
    active_mask: Tensor | None = None,
    *,
    local_rank_id: int = -1,
    world_size: int = -1,
    balance_mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """``(balanced_expert_ids, balanced_active_mask)``."""
    table = counted(eplb_table)
    ids = chosen(expert_ids, table.size(0)).to(torch.int64)
    counts = table[:, 0].to(torch.int64)[ids]
    if balance_mode == 0:
        run = (world_size + counts - 1) // counts
        replica = local_rank_id // run
    else:
        replica = torch.arange(ids.size(0), device=ids.device)[:, None] % counts
    replica = torch.where(counts == 1, 0, replica)
    balanced = table[ids, replica + 1].to(expert_ids.dtype)
    if expert_scales is None or pruning_threshold is None:
        return balanced, torch.zeros_like(ids, dtype=torch.bool)
    scales = expert_scales.float()
    stays = scales >= scales.sum(-1, keepdim=True) * pruning_threshold.reshape(1, -1)
    return balanced, stays if active_mask is None else stays & leading(active_mask)[:, None]
