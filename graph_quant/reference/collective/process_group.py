"""The ranks that an operator communicates with, found by the name that their group has for operators.

Who carries data between ranks registers here how a group is found: the reference knows no transport.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from graph_quant.refusals import Refusal
from torch import Tensor


class Group(Protocol):
    """Some ranks, as one of them sees them. Every rank of a group makes the same calls in the same order."""

    @property
    def rank(self) -> int:
        """The place of this rank among them."""

    @property
    def ranks(self) -> int:
        """How many there are."""

    def all_reduce(self, x: Tensor, reduction: str) -> Tensor:
        """What all have, reduced: sum, prod, min or max."""

    def all_gather(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """The rows of all, one rank after the other, from each as many as `rows` says."""

    def reduce_scatter(self, x: Tensor, reduction: str, rows: Sequence[int]) -> Tensor:
        """Of what all have, reduced, the rows that belong to this rank: as many as `rows` says for it."""

    def broadcast(self, x: Tensor, root: int) -> Tensor:
        """What the root has."""

    def all_to_all(self, x: Tensor, sends: Sequence[int], takes: Sequence[int]) -> Tensor:
        """The rows that each rank has for this one, where `sends` rows go to each and `takes` come from each."""

    def send(self, x: Tensor, target: int, tag: int) -> None:
        """Give a rank something."""

    def receive(self, into: Tensor, source: int, tag: int) -> Tensor:
        """What a rank gives."""

    def window(self, rank: int) -> Tensor:
        """The bytes of another rank's window, to which this rank writes without the other's doing."""

    @property
    def limit(self) -> float:
        """How many seconds a rank waits for another."""


_finders: list[Callable[[str], Group | None]] = []


def set_group_resolver(finder: Callable[[str], Group | None]) -> None:
    """Asks ``finder`` for groups, from now on."""
    _finders[:] = [finder]


def resolve_group(name: str) -> Group:
    """The group of a name."""
    for finder in _finders:
        found = finder(name)
        if found is not None:
            return found
    raise Refusal(f"no group of this process is named {name!r}: make it with torch.distributed, backend hccl")
