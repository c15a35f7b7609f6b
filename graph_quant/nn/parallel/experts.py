"""Expert parallelism: each rank holds some of the experts, and sees every token.

A rank computes the rows of its own experts. The rows are exchanged as integers by an all-reduce with zeros, then
weighted and added up in the order of top_k, so that the result is bitwise that of one rank.
"""

from __future__ import annotations

import copy

import torch
from graph_quant.nn.experts.base import TOKEN_BUFFERS, QuantisedExperts
from graph_quant.nn.experts.products import Routed, combine
from graph_quant.nn.parallel.ranks import Ranks
from torch import Tensor, nn


class ParallelExperts(nn.Module):
    """Quantised experts shared among ranks; inputs and results are the same on every rank."""

    def __init__(self, name: str, experts: QuantisedExperts, ranks: Ranks) -> None:
        super().__init__()
        total = experts.experts
        part = ranks.part(f"the experts of {name}", total)
        self.local = copy.copy(experts)
        self.local._buffers = {
            buffer: tensor if tensor is None or buffer in TOKEN_BUFFERS else tensor[part].contiguous()
            for buffer, tensor in experts._buffers.items()
        }
        self.local.chosen_from = total
        self._ranks, self._part = ranks, part

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Return the result for each token."""
        routed = self.local.route(hidden_states, top_k_index)
        counts = routed.counts[self._part]
        rows = torch.arange(routed.rows.size(0), device=routed.rows.device)
        order = (rows + routed.counts[: self._part.start].sum()) % routed.rows.size(0)
        scales = routed.scales[order] if routed.scales.numel() else routed.scales
        computed = self.local.compute(Routed(routed.rows[order], routed.row_index, counts, scales), hidden_states.dtype)
        bits = torch.where((rows < counts.sum()).unsqueeze(-1), computed.view(torch.int16), 0)
        all_bits = self._ranks.all_reduce(torch.zeros_like(bits).index_copy(0, order, bits))
        return combine(all_bits.view(hidden_states.dtype), routed, top_k_weights)
