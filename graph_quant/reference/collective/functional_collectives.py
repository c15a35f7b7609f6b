"""Functional collectives: operators that are opaque to tracers, have meta functions, and are never reordered.

The results are new tensors. Sizes that follow from the number of ranks are arguments, so that tracing needs no process
group.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.reference.collective.process_group import resolve_group
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor


def _infer_like(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _empty_rows(x: Tensor, rows: int) -> Tensor:
    return x.new_empty((rows, *x.shape[1:]))


def _infer_all_gather(x: Tensor, rows: Sequence[int], _: str) -> Tensor:
    return _empty_rows(x, sum(rows))


def _infer_reduce_scatter(x: Tensor, _: str, __: Sequence[int], kept: int, ___: str) -> Tensor:
    return _empty_rows(x, kept)


def _infer_all_to_all(x: Tensor, _: Sequence[int], receives: Sequence[int], __: str) -> Tensor:
    return _empty_rows(x, sum(receives))


def _infer_receive(shape: Sequence[int], dtype: torch.dtype, *_: object) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype)


@opaque(_infer_like, ordered=True)
def group_all_reduce(x: Tensor, reduction: str, group: str) -> Tensor:
    """All-reduce of ``x``."""
    return resolve_group(group).all_reduce(x.contiguous(), reduction)


@opaque(_infer_all_gather, ordered=True)
def group_all_gather(x: Tensor, rows: Sequence[int], group: str) -> Tensor:
    """The rows of all ranks, in the order of ranks."""
    return resolve_group(group).all_gather(x.contiguous(), rows)


@opaque(_infer_reduce_scatter, ordered=True)
def group_reduce_scatter(x: Tensor, reduction: str, rows: Sequence[int], kept: int, group: str) -> Tensor:
    """The ``kept`` rows of this rank in the reduction over all ranks."""
    ranks = resolve_group(group)
    if ranks.ranks != len(rows) or rows[ranks.rank] != kept:
        raise Refusal(f"rank {ranks.rank} of {ranks.ranks} cannot keep {kept} of the rows {list(rows)}")
    return ranks.reduce_scatter(x.contiguous(), reduction, rows)


@opaque(_infer_like, ordered=True)
def group_broadcast(x: Tensor, root: int, group: str) -> Tensor:
    """The root's tensor."""
    return resolve_group(group).broadcast(x.contiguous(), root)


@opaque(_infer_all_to_all, ordered=True)
def group_all_to_all(x: Tensor, sends: Sequence[int], receives: Sequence[int], group: str) -> Tensor:
    """The rows that all ranks send to this one; ``sends`` and ``receives`` are row counts per rank."""
    return resolve_group(group).all_to_all(x.contiguous(), sends, receives)


@opaque(_infer_like, ordered=True)
def group_all_to_all_evenly(x: Tensor, group: str) -> Tensor:
    """All-to-all with the same number of rows for every rank."""
    ranks = resolve_group(group)
    if x.size(0) % ranks.ranks:
        raise Refusal(f"x.size(0) must be a multiple of the {ranks.ranks} ranks, got {x.size(0)}")
    rows = [x.size(0) // ranks.ranks] * ranks.ranks
    return ranks.all_to_all(x.contiguous(), rows, rows)


@opaque(_infer_like, ordered=True)
def group_send(x: Tensor, target: int, tag: int, group: str) -> Tensor:
    """Sends ``x`` to another rank and returns a copy of it."""
    data = x.contiguous()
    resolve_group(group).send(data, target, tag)
    return data.clone() if data is x else data


@opaque(_infer_receive, ordered=True)
def group_receive(shape: Sequence[int], dtype: torch.dtype, source: int, tag: int, group: str) -> Tensor:
    """The tensor that another rank sends."""
    return resolve_group(group).receive(torch.empty(tuple(shape), dtype=dtype), source, tag)
