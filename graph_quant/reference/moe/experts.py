"""Token-expert pairs in the order of their experts.

A token has K experts, so that pair p belongs to token p // K. Pairs are sorted by expert, those of one expert in the
order of their tokens; pairs of experts outside the range that this device holds come last.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from torch import Tensor

_NOT_HERE = torch.iinfo(torch.int32).max


@value_check
def expert_ids(op: str, expert_idx: Tensor, lowest: int, experts: int) -> Tensor:
    """``expert_idx``, refused where a value is not in [lowest, experts)."""
    check_range(op, "expert_idx", expert_idx, lowest, experts)
    return expert_idx


@dataclass(frozen=True)
class SortedPairs:
    """The sorted pairs ``order`` and their ``experts``; the pairs of expert e begin at ``first[e - start]``."""

    order: Tensor
    experts: Tensor
    first: Tensor

    @property
    def present(self) -> Tensor:
        """The number of pairs whose expert is in the range, as a scalar tensor."""
        return self.first[-1]

    def counts(self) -> Tensor:
        """The number of pairs of each expert."""
        return self.first.diff()

    def positions(self) -> Tensor:
        """The sorted position of each pair, whatever its expert."""
        return self._at_pairs(torch.arange(self.order.size(0), device=self.order.device))

    def gather_index(self) -> Tensor:
        """The sorted position of each pair, -1 for pairs of experts outside the range."""
        position = torch.arange(self.order.size(0), device=self.order.device)
        return self._at_pairs(torch.where(position < self.present, position, -1))

    def with_capacity(self, experts: int, capacity: int) -> tuple[Tensor, Tensor]:
        """The pair in each row, for ``capacity`` rows per expert, and the row of each pair; -1 for none."""
        position = torch.arange(self.order.size(0), device=self.order.device)
        position_in_expert = position - self.first[self.experts]
        is_kept = position_in_expert < capacity
        rows = experts * capacity
        row = torch.where(is_kept, self.experts * capacity + position_in_expert, rows)
        pair_of_row = self.order.new_full((rows + 1,), -1).scatter(0, row, self.order)[:rows]
        return pair_of_row, self._at_pairs(torch.where(is_kept, row, -1))

    def _at_pairs(self, values: Tensor) -> Tensor:
        return torch.empty_like(values, dtype=torch.int32).scatter(0, self.order, values.to(torch.int32))


def sort_pairs(expert_idx: Tensor, start: int, end: int) -> SortedPairs:
    """The pairs of ``expert_idx`` (tokens, K), sorted; this device holds the experts in [start, end)."""
    flat = expert_idx.reshape(-1)
    experts, order = torch.sort(torch.where(flat < start, _NOT_HERE, flat), stable=True)
    bounds = torch.arange(start, end + 1, dtype=experts.dtype, device=experts.device)
    return SortedPairs(order, experts, torch.searchsorted(experts, bounds))


def only_where(kept: Tensor, rows: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """``rows`` and their ``scales``, set to zero where ``kept`` is False."""
    if torch.compiler.is_compiling():
        return torch.where(kept.unsqueeze(-1), rows, 0), torch.where(kept, scales, 0)
    return rows.masked_fill_(~kept.unsqueeze(-1), 0), scales.masked_fill_(~kept, 0)
