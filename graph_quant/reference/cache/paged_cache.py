"""Paged KV caches.

In mode Norm a cache is (blocks, block size, heads, channels). In mode PA_NZ a token is split into parts of 32 bytes (c
elements), and a block stores the same part of all its tokens together: (blocks, heads * channels / c, block size, c),
or with the heads as a separate dimension.
"""

from __future__ import annotations

import torch
from graph_quant.reference.index_checks import checked_index
from graph_quant.reference.opaque import opaque
from torch import Tensor

NORM, PA_NZ = "Norm", "PA_NZ"
NZ_BYTES = 32


def view_as_tokens(cache: Tensor, mode: str) -> Tensor:
    """A view of ``cache`` as (blocks, block size, ...), where the other dimensions are those of one token."""
    return cache.movedim(-2, 1) if mode == PA_NZ else cache


def count_slots(cache: Tensor, mode: str) -> int:
    """The number of tokens that ``cache`` can hold."""
    return cache.size(0) * cache.size(-2 if mode == PA_NZ else 1)


def write_tokens(op: str, argument: str, cache: Tensor, rows: Tensor, slots: Tensor, mode: str) -> Tensor:
    """Writes the tokens of ``rows`` to their slots of ``cache`` in place; negative slots are skipped."""
    if torch.compiler.is_compiling():
        write_cache_rows(op, argument, cache, rows, slots, mode)
        return cache
    slots = checked_index(op, argument, slots.clamp(min=-1), -1, count_slots(cache, mode)).long()
    kept = slots >= 0
    tokens = view_as_tokens(cache, mode)
    tokens[slots[kept] // tokens.size(1), slots[kept] % tokens.size(1)] = rows[kept].reshape(-1, *tokens.shape[2:])
    return cache


@opaque(lambda *_: None, writes=("cache",))
def write_cache_rows(operator: str, argument: str, cache: Tensor, rows: Tensor, slots: Tensor, cache_mode: str) -> None:
    """``write_tokens`` to tracers; opaque because the slots decide which are written."""
    write_tokens(operator, argument, cache, rows, slots, cache_mode)
