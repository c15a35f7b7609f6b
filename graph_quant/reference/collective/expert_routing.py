"""Which token goes to which expert, and the order of the rows: both ends compute it without communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import torch
from graph_quant.reference.collective.expert_layout import ExpertLayout
from graph_quant.reference.collective.process_group import Group, resolve_group
from graph_quant.refusals import Refusal
from torch import Tensor


@dataclass(frozen=True)
class Route:
    """The rows that this rank sends, ordered by expert and then by token."""

    group: Group
    layout: ExpertLayout
    chosen: int  # experts per token, shared ones last
    indices: Tensor  # of every row in the flattened (tokens, chosen)
    counts: Tensor  # rows per expert, in the order of ranks

    @property
    def tokens(self) -> Tensor:
        """The token of every row."""
        return torch.div(self.indices, self.chosen, rounding_mode="floor")

    @property
    def choices(self) -> Tensor:
        """The column of ``expert_ids`` that every row is for."""
        return self.indices % self.chosen

    @property
    def sends(self) -> list[int]:
        """The number of rows sent to every rank."""
        return [int(part.sum()) for part in self.counts.split(self.layout.all_local)]

    def exchange_counts(self) -> Tensor:
        """The number of rows that every rank sends to every expert of this one: (ranks, local experts)."""
        receives = [self.layout.local] * self.layout.ranks
        received = self.group.all_to_all(self.counts.contiguous(), self.layout.all_local, receives)
        return received.view(self.layout.ranks, self.layout.local)


def compute_route(
    op: str, group: str, layout: ExpertLayout, specials: int, expert_ids: Tensor, mask: Tensor | None, second: bool
) -> Route:
    """The route of this rank's tokens; refuses values that the device does not check and would misroute."""
    process_group, ranks, rank, experts = resolve_group(group), layout.ranks, layout.rank, layout.experts
    if (process_group.ranks, process_group.rank) != (ranks, rank):
        raise Refusal(
            f"{op}: ep_world_size and ep_rank_id must be those of group {group!r}, {process_group.ranks} and "
            f"{process_group.rank}, got {ranks} and {rank}"
        )
    ids = expert_ids.to(torch.int64)
    active = _active(op, mask, ids)
    _check_ids(op, ids, experts + specials)
    slots, unsent = layout.shared_ranks + ids, layout.shared_ranks + experts
    slots = torch.where(active & (ids < experts), slots, unsent)
    if layout.shared:
        shared = layout.slots_of_shared(ids.size(0), second)
        slots = torch.cat([slots, torch.where(active.any(1, keepdim=True), shared, unsent)], 1)
    flat = slots.flatten()
    indices = torch.argsort(flat, stable=True)[: int((flat < unsent).sum())]
    counts = torch.bincount(flat, minlength=unsent + 1)[:unsent]
    return Route(process_group, layout, slots.size(1), indices, counts)


def _active(op: str, mask: Tensor | None, ids: Tensor) -> Tensor:
    if mask is None:
        return torch.ones_like(ids, dtype=torch.bool)
    if mask.dim() == 2:
        return mask
    if bool((mask[1:] & ~mask[:-1]).any()):
        raise Refusal(f"{op}: x_active_mask must have every True before the first False, got {mask.tolist()}")
    return mask.unsqueeze(1).expand_as(ids)


def _check_ids(op: str, ids: Tensor, experts: int) -> None:
    if bool(((ids < 0) | (ids >= experts)).any()):
        outside = int(ids[(ids < 0) | (ids >= experts)][0])
        raise Refusal(f"{op}: expert_ids must be from 0 to {experts - 1}, got {outside}")
    ordered = ids.sort(1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(1).nonzero()
    if twice.numel():
        token = int(twice[0])
        raise Refusal(f"{op}: expert_ids of a token must differ, got {ids[token].tolist()} for token {token}")


Counts = Sequence[Sequence[int]]  # row counts by rank and expert


def sort_by_expert(rows: Tensor, counts: Counts) -> Tensor:
    """Rows in the order of ranks, reordered by expert and then by rank."""
    return rows[_permutation(counts)]


def sort_by_rank(rows: Tensor, counts: Counts) -> Tensor:
    """The inverse of ``sort_by_expert``."""
    return rows[torch.argsort(_permutation(counts))]


def _permutation(counts: Counts) -> Tensor:
    experts = len(counts[0])
    numbers = list(chain.from_iterable(counts))
    ends = list(accumulate(numbers))
    order = [index for expert in range(experts) for index in range(expert, len(numbers), experts)]
    return torch.cat([torch.arange(ends[index] - numbers[index], ends[index]) for index in order])
