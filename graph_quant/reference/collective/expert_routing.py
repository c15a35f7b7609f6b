"""Which token goes to which expert, and where its row lies on the way: known on both ends without being sent."""

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
    """The rows that this rank sends: in the order of experts, those of an expert in the order of tokens."""

    group: Group
    layout: ExpertLayout
    chosen: int  # experts of each token, the shared ones last
    places: Tensor  # of each row among the experts of all tokens
    counts: Tensor  # rows for each expert, a rank after the other

    @property
    def tokens(self) -> Tensor:
        """The token of each row."""
        return torch.div(self.places, self.chosen, rounding_mode="floor")

    @property
    def choices(self) -> Tensor:
        """Which of its token's experts each row is for."""
        return self.places % self.chosen

    @property
    def sends(self) -> list[int]:
        """Rows for each rank."""
        return [int(part.sum()) for part in self.counts.split(self.layout.all_local)]

    def come(self) -> Tensor:
        """How many rows each rank has for each expert of this one: (ranks, experts)."""
        takes = [self.layout.local] * self.layout.ranks
        came = self.group.all_to_all(self.counts.contiguous(), self.layout.all_local, takes)
        return came.view(self.layout.ranks, self.layout.local)


def compute_route(
    op: str, group: str, layout: ExpertLayout, specials: int, expert_ids: Tensor, mask: Tensor | None, second: bool
) -> Route:
    """The route of some tokens; what the device does not check leads it astray, and is refused here."""
    found, ranks, rank, experts = resolve_group(group), layout.ranks, layout.rank, layout.experts
    if (found.ranks, found.rank) != (ranks, rank):
        raise Refusal(
            f"{op}: ep_world_size and ep_rank_id must be those of group {group!r}, {found.ranks} and {found.rank}, "
            f"got {ranks} and {rank}"
        )
    ids = expert_ids.to(torch.int64)
    active = _active(op, mask, ids)
    _check_ids(op, ids, experts + specials)
    slots, nowhere = layout.shared_ranks + ids, layout.shared_ranks + experts
    slots = torch.where(active & (ids < experts), slots, nowhere)
    if layout.shared:
        shared = layout.slots_of_shared(ids.size(0), second)
        slots = torch.cat([slots, torch.where(active.any(1, keepdim=True), shared, nowhere)], 1)
    flat = slots.flatten()
    places = torch.argsort(flat, stable=True)[: int((flat < nowhere).sum())]
    counts = torch.bincount(flat, minlength=nowhere + 1)[:nowhere]
    return Route(found, layout, slots.size(1), places, counts)


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


Counts = Sequence[Sequence[int]]  # rows of each rank for each expert


def sort_by_expert(rows: Tensor, counts: Counts) -> Tensor:
    """Rows that came rank by rank, by expert and then by rank."""
    return rows[_turned(counts)]


def sort_by_rank(rows: Tensor, counts: Counts) -> Tensor:
    """The other way: rows by expert and then by rank, rank by rank."""
    return rows[torch.argsort(_turned(counts))]


def _turned(counts: Counts) -> Tensor:
    experts = len(counts[0])
    numbers = list(chain.from_iterable(counts))
    ends = list(accumulate(numbers))
    places = [place for expert in range(experts) for place in range(expert, len(numbers), experts)]
    return torch.cat([torch.arange(ends[place] - numbers[place], ends[place]) for place in places])
