"""Tokens to experts and back, with shapes that depend on the number of tokens alone.

A graph cannot hold an array for each expert, whose length is data. It holds one row for each pair of token and expert,
sorted by expert, and where each expert's rows end: what npu_group_quant takes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Routing(NamedTuple):
    """``order`` sorts the pairs by expert, ``place`` puts them back; the others describe the sorted rows."""

    order: Tensor
    place: Tensor
    token_of_row: Tensor
    expert_of_row: Tensor
    group_ends: Tensor


def route(top_k_index: Tensor, experts: int) -> Routing:
    """The routing of (tokens, k) chosen experts."""
    chosen = top_k_index.reshape(-1)
    expert_of_row, order = torch.sort(chosen, stable=True)
    every_expert = torch.arange(experts, device=chosen.device)
    group_ends = (expert_of_row.unsqueeze(0) <= every_expert.unsqueeze(1)).sum(1)
    place = torch.sort(order)[1]
    return Routing(order, place, order // top_k_index.size(1), expert_of_row, group_ends)


def is_experts(module: nn.Module) -> bool:
    """Whether a module is experts as transformers builds them: gated, with the weights of all in two tensors."""
    gate_up, down = getattr(module, "gate_up_proj", None), getattr(module, "down_proj", None)
    return (
        isinstance(gate_up, Tensor)
        and isinstance(down, Tensor)
        and gate_up.dim() == down.dim() == 3
        and gate_up.size(1) == 2 * down.size(2)
        and hasattr(module, "act_fn")
    )
