"""Experts over the ranks: each has some of them, and every token.

A rank computes the rows of its experts, as one rank would; rows go to all ranks as bits, which are summed with zeros,
and are weighted and added up there in the order of top_k: the bits are those of one rank.
"""

from __future__ import annotations

import copy

import torch
from graph_quant.nn.experts.base import OF_TOKENS, QuantisedExperts
from graph_quant.nn.experts.products import Routed, combine
from graph_quant.nn.parallel.ranks import Ranks
from torch import Tensor, nn


class ParallelExperts(nn.Module):
    """Takes and gives what ``QuantisedExperts`` do, on every rank the same."""

    def __init__(self, name: str, experts: QuantisedExperts, ranks: Ranks) -> None:
        super().__init__()
        total = experts.experts
        part = ranks.part(f"the experts of {name}", total)
        self.local = copy.copy(experts)
        self.local._buffers = {
            buffer: tensor if tensor is None or buffer in OF_TOKENS else tensor[part].contiguous()
            for buffer, tensor in experts._buffers.items()
        }
        self.local.chosen_from = total
        self._ranks, self._part = ranks, part

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """The result for each token."""
        routed = self.local.route(hidden_states, top_k_index)
        counts = routed.counts[self._part]
        places = torch.arange(routed.rows.size(0), device=routed.rows.device)
        order = (places + routed.counts[: self._part.start].sum()) % routed.rows.size(0)
        scales = routed.scales[order] if routed.scales.numel() else routed.scales
        computed = self.local.compute(Routed(routed.rows[order], routed.place, counts, scales), hidden_states.dtype)
        bits = torch.where((places < counts.sum()).unsqueeze(-1), computed.view(torch.int16), 0)
        everywhere = self._ranks.sum(torch.zeros_like(bits).index_copy(0, order, bits))
        return combine(everywhere.view(hidden_states.dtype), routed, top_k_weights)
