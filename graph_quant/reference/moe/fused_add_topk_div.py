"""npu_fused_add_topk_div: experts chosen by sigmoid(x) + add_num and weighted by sigmoid(x), in float32.

Experts of groups that are not chosen score 0, which ranks above a negative sum; of equal scores the first expert is
chosen. Weights are divided by their sum, added from the first expert on, and then multiplied by the scale. A token uses
copy ``token index % copies`` of an expert.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.reference.checks import value_check
from graph_quant.reference.moe.group_topk import best_groups
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_fused_add_topk_div"


@value_check
def checked_copies(mapping_num: Tensor, most: int) -> Tensor:
    """``mapping_num``, refused where it is above the number of copies in the table."""
    wrong = ((mapping_num < 0) | (mapping_num > most)).nonzero()
    if wrong.numel():
        index = int(wrong[0])
        raise Refusal(f"{OP}: mapping_num[{index}] must lie in [0, {most}], got {int(mapping_num[index])}")
    return mapping_num


def fused_add_topk_div(
    x: Tensor,
    add_num: Tensor,
    mapping_num: Tensor | None,
    mapping_table: Tensor | None,
    group_num: int,
    group_topk: int,
    n: int,
    k: int,
    is_norm: bool,
    scale: float,
    enable_expert_mapping: bool,
) -> tuple[Tensor, Tensor]:
    """The weights and indices of ``k`` experts for each token."""
    gates = x.float().sigmoid()
    groups = (gates + add_num.float()).reshape(x.size(0), group_num, -1)
    kept = best_groups(groups, group_topk, n)
    scores = groups.masked_fill(~kept, 0.0).reshape(x.shape)
    experts = scores.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    weights = gates.gather(1, experts)
    if is_norm:
        weights = weights / weights.sum(-1, keepdim=True) * torch.tensor(scale, dtype=torch.float32)
    if enable_expert_mapping:
        assert mapping_num is not None
        assert mapping_table is not None
        copies = checked_copies(mapping_num, mapping_table.size(1)).clamp(min=1)[experts]
        turn = torch.arange(x.size(0), device=x.device)[:, None] % copies
        experts = mapping_table[experts, turn]
    return weights, experts.int()


def fused_add_topk_div_out(
    y: Tensor,
    indices: Tensor,
    activation_type: str | None,  # noqa: ARG001 (there is one)
    **arguments: Any,
) -> tuple[Tensor, Tensor]:
    """Write the weights to ``y`` and the experts to ``indices``."""
    weights, experts = fused_add_topk_div(**arguments)
    return y.copy_(weights), indices.copy_(experts)
