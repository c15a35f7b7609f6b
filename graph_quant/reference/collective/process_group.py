"""The process group that an operator communicates in, looked up by its HCCL name.

The transport registers a resolver here: the reference does not depend on a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from graph_quant.refusals import Refusal
from torch import Tensor


class Group(Protocol):
    """A process group as seen by one rank. Every rank makes the same calls in the same order."""

    @property
    def rank(self) -> int:
        """The index of this rank in the group."""

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    def all_reduce(self, x: Tensor, reduction: str) -> Tensor:
        """All-reduce by sum, prod, min or max."""

    def all_gather(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """The rows of all ranks in order; ``rows`` are the row counts per rank."""

    def reduce_scatter(self, x: Tensor, reduction: str, rows: Sequence[int]) -> Tensor:
        """The rows of this rank in the reduction; ``rows`` are the row counts per rank."""

    def broadcast(self, x: Tensor, root: int) -> Tensor:
        """The root's tensor."""

    def all_to_all(self, x: Tensor, sends: Sequence[int], receives: Sequence[int]) -> Tensor:
        """The rows that all ranks send to this one; ``sends`` and ``receives`` are row counts per rank."""

    def send(self, x: Tensor, target: int, tag: int) -> None:
        """Sends ``x`` to a rank."""

    def receive(self, into: Tensor, source: int, tag: int) -> Tensor:
        """Receives a tensor from a rank into ``into``."""

    def window(self, rank: int) -> Tensor:
        """The bytes of another rank's window, which this rank writes by one-sided communication."""

    @property
    def limit(self) -> float:
        """The timeout in seconds."""


_resolvers: list[Callable[[str], Group | None]] = []


def set_group_resolver(resolver: Callable[[str], Group | None]) -> None:
    """Makes ``resolver`` look up groups from now on."""
    _resolvers[:] = [resolver]


def resolve_group(name: str) -> Group:
    """The process group with an HCCL name."""
    for resolver in _resolvers:
        group = resolver(name)
        if group is not None:
            return group
    raise Refusal(f"no group of this process is named {name!r}: make it with torch.distributed, backend hccl")
