"""cache_loc_assign and cache_loc_update: slots of the cache, by request and position.

The pool has a row of slots for each request. ``cache_loc_assign`` writes the next slots of ``out_cache_loc`` to the
positions ``start_offset`` to ``end_offset`` of each request, at most 16 of them, and returns the pool;
``cache_loc_update`` reads them from there, and returns ``out_cache_loc``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.refusals import Refusal
from torch import Tensor

_MOST_STEPS = 16


def _spans(
    op: str, requests: Tensor, pool: Tensor, starts: Tensor, ends: Tensor, slots: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the part of the pool and of the slots of each request."""
    used = 0
    for index, (request, start, end) in enumerate(zip(requests.tolist(), starts.tolist(), ends.tolist(), strict=True)):
        count = end - start
        if not (0 <= request < pool.size(0) and start >= 0 and 0 <= count <= _MOST_STEPS and end <= pool.size(1)):
            raise Refusal(
                f"{op}: request {index} must lie in the pool {list(pool.shape)} and have at most {_MOST_STEPS} "
                f"positions, got row {request}, positions {start} to {end}"
            )
        if used + count > slots.size(0):
            raise Refusal(f"{op}: out_cache_loc.size(0) must be at least {used + count}, got {slots.size(0)}")
        yield pool[request, start:end], slots[used : used + count]
        used += count


def cache_loc_assign(
    req_indices: Tensor, token_pool: Tensor, start_offset: Tensor, end_offset: Tensor, out_cache_loc: Tensor
) -> Tensor:
    """Write the slots into the pool; return it."""
    arguments = req_indices, token_pool, start_offset, end_offset, out_cache_loc
    for row, slots in _spans("cache_loc_assign", *arguments):
        row.copy_(slots)
    return token_pool


def cache_loc_update(
    req_indices: Tensor, token_pool: Tensor, start_offset: Tensor, end_offset: Tensor, out_cache_loc: Tensor
) -> Tensor:
    """Read the slots from the pool; return them."""
    arguments = req_indices, token_pool, start_offset, end_offset, out_cache_loc
    for row, slots in _spans("cache_loc_update", *arguments):
        slots.copy_(row)
    return out_cache_loc


def _check(rules: Rules, requests: Tensor, pool: Tensor, starts: Tensor, ends: Tensor, slots: Tensor) -> None:
    rules.dtype("req_indices", requests, (torch.int32, torch.int64))
    rules.rank("req_indices", requests, 1)
    rules.dtype("token_pool", pool, (torch.int32,))
    rules.rank("token_pool", pool, 2)
    for name, offsets in (("start_offset", starts), ("end_offset", ends)):
        rules.dtype(name, offsets, (torch.int64,))
        rules.shape(name, offsets, (requests.size(0),), ("req_indices.size(0)",))
    rules.dtype("out_cache_loc", slots, (torch.int32,))
    rules.rank("out_cache_loc", slots, 1)
    for name, tensor in (("token_pool", pool), ("out_cache_loc", slots)):
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023


@operator("npu::cache_loc_assign", reference=cache_loc_assign)
def rules_of_cache_loc_assign(
    rules: Rules,
    req_indices: Tensor,
    token_pool: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
) -> Plan:
    """Check a call by the extension's host code; it returns the pool."""
    _check(rules, req_indices, token_pool, start_offset, end_offset, out_cache_loc)
    return Plan(("token_pool",))


@operator("npu::cache_loc_update", reference=cache_loc_update)
def rules_of_cache_loc_update(
    rules: Rules,
    req_indices: Tensor,
    token_pool: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
) -> Plan:
    """Check a call by the extension's host code; it returns the slots."""
    _check(rules, req_indices, token_pool, start_offset, end_offset, out_cache_loc)
    return Plan(("out_cache_loc",))
