"""The placement of experts on ranks: shared experts on the first ranks, then the same number of others on each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

Size = TypeVar("Size", int, "int | torch.SymInt")


@dataclass(frozen=True)
class ExpertLayout:
    """The experts of all ranks as seen by one; ``shared`` experts occupy the first ``shared_ranks`` ranks."""

    ranks: int
    rank: int
    experts: int
    shared: int = 0
    shared_ranks: int = 0

    @classmethod
    def of(cls, ranks: int, rank: int, experts: int, shared: int, shared_ranks: int) -> ExpertLayout:
        """The layout for an operator's arguments; shared experts without ranks of their own do not count."""
        return cls(ranks, rank, experts, shared if shared_ranks else 0, shared_ranks)

    @property
    def is_shared(self) -> bool:
        """Whether this rank has a shared expert."""
        return self.rank < self.shared_ranks

    @property
    def local(self) -> int:
        """The number of experts on this rank."""
        return self.all_local[self.rank]

    @property
    def all_local(self) -> list[int]:
        """The number of experts on every rank."""
        others = self.ranks - self.shared_ranks
        return [1] * self.shared_ranks + [self.experts // others] * others

    @property
    def _copies(self) -> int:
        """The number of ranks per shared expert."""
        return self.shared_ranks // self.shared

    def rows(self, tokens: Size, chosen: Size, second: bool) -> Size:
        """The most rows that this rank receives when all ranks have ``tokens`` tokens."""
        if not self.is_shared:
            return tokens * torch.sym_min(self.local, chosen)  # type: ignore[no-any-return]
        return tokens // self.ranks * -(-self.ranks // self._copies) if second else tokens // self.shared_ranks

    def slots_of_shared(self, tokens: int, second: bool) -> Tensor:
        """The rank of every shared expert for every token: (tokens, shared experts).

        The second version sends all tokens of a rank to one copy of each shared expert. The first has one shared
        expert: its ranks keep their own tokens, and the other ranks split theirs evenly among its ranks.
        """
        if second:
            return (self.rank % self._copies + torch.arange(self.shared) * self._copies).expand(tokens, -1)
        if self.is_shared:
            return torch.full((tokens, 1), self.rank)
        ends = (torch.arange(1, self.shared_ranks + 1) + self.rank) * tokens // self.shared_ranks
        first = self.rank * tokens // self.shared_ranks
        return torch.searchsorted(ends - first, torch.arange(tokens), right=True).unsqueeze(1)
