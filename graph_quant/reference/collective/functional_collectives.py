"""Communication as steps of a computation: opaque to tracers, inferred without data, and never reordered.

The results are new tensors. Sizes that follow from the number of ranks are passed, so that nothing asks a group before
the computation runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.reference.collective.process_group import resolve_group
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor


def _like(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _rows(x: Tensor, rows: int) -> Tensor:
    return x.new_empty((rows, *x.shape[1:]))


def _gathered(x: Tensor, rows: Sequence[int], _: str) -> Tensor:
    return _rows(x, sum(rows))


def _kept(x: Tensor, _: str, __: Sequence[int], kept: int, ___: str) -> Tensor:
    return _rows(x, kept)


def _taken(x: Tensor, _: Sequence[int], takes: Sequence[int], __: str) -> Tensor:
    return _rows(x, sum(takes))


def _received(shape: Sequence[int], dtype: torch.dtype, *_: object) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype)


@opaque(_like, ordered=True)
def group_all_reduce(x: Tensor, reduction: str, group: str) -> Tensor:
    """What all ranks have, reduced."""
    return resolve_group(group).all_reduce(x.contiguous(), reduction)


@opaque(_gathered, ordered=True)
def group_all_gather(x: Tensor, rows: Sequence[int], group: str) -> Tensor:
    """The rows of all ranks, one rank after the other."""
    return resolve_group(group).all_gather(x.contiguous(), rows)


@opaque(_kept, ordered=True)
def group_reduce_scatter(x: Tensor, reduction: str, rows: Sequence[int], kept: int, group: str) -> Tensor:
    """The rows that belong to this rank, ``kept`` of them, reduced over all ranks."""
    ranks = resolve_group(group)
    if ranks.ranks != len(rows) or rows[ranks.rank] != kept:
        raise Refusal(f"rank {ranks.rank} of {ranks.ranks} cannot keep {kept} of the rows {list(rows)}")
    return ranks.reduce_scatter(x.contiguous(), reduction, rows)


@opaque(_like, ordered=True)
def group_broadcast(x: Tensor, root: int, group: str) -> Tensor:
    """What the root has."""
    return resolve_group(group).broadcast(x.contiguous(), root)


@opaque(_taken, ordered=True)
def group_all_to_all(x: Tensor, sends: Sequence[int], takes: Sequence[int], group: str) -> Tensor:
    """The rows that each rank has for this one."""
    return resolve_group(group).all_to_all(x.contiguous(), sends, takes)


@opaque(_like, ordered=True)
def group_all_to_all_evenly(x: Tensor, group: str) -> Tensor:
    """As many rows from each rank as from every other."""
    ranks = resolve_group(group)
    if x.size(0) % ranks.ranks:
        raise Refusal(f"x.size(0) must be a multiple of the {ranks.ranks} ranks, got {x.size(0)}")
    rows = [x.size(0) // ranks.ranks] * ranks.ranks
    return ranks.all_to_all(x.contiguous(), rows, rows)


@opaque(_like, ordered=True)
def group_send(x: Tensor, target: int, tag: int, group: str) -> Tensor:
    """What this rank gives to another: itself, once it is on its way."""
    data = x.contiguous()
    resolve_group(group).send(data, target, tag)
    return data.clone() if data is x else data


@opaque(_received, ordered=True)
def group_receive(shape: Sequence[int], dtype: torch.dtype, source: int, tag: int, group: str) -> Tensor:
    """What another rank gives."""
    return resolve_group(group).receive(torch.empty(tuple(shape), dtype=dtype), source, tag)
