"""Writes of tokens into a cache (blocks, block size, 1, channels), by the cache modes of npu_mla_prolog_v3.

PA_BSND and PA_NZ take a slot per token, negative for none; PA_BLK_BSND and PA_BLK_NZ a block per run of block-size
tokens of a sequence; BSND and TND have one slot per token in order. The NZ modes store a block as (channels / c, block
size, c) with 32 bytes in c.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

NZ_BYTES = 32
BY_SLOT, BY_BLOCK, IN_PLACE = ("PA_BSND", "PA_NZ"), ("PA_BLK_BSND", "PA_BLK_NZ"), ("BSND", "TND")
MODES = (*BY_SLOT, *BY_BLOCK, *IN_PLACE)


@value_check
def check_slots(op: str, cache_index: Tensor, slots: int) -> Tensor:
    """``cache_index``, refused where it exceeds the cache."""
    wrong = (cache_index.flatten() >= slots).nonzero()
    if wrong.numel():
        index = int(wrong[0])
        got = int(cache_index.flatten()[index])
        raise Refusal(f"{op}: cache_index[{index}] must be below {slots}, the slots of the cache, got {got}")
    return cache_index


def compute_slots(
    op: str, mode: str, cache: Tensor, cache_index: Tensor | None, tokens: Sequence[int], ends: Tensor | None
) -> Tensor | None:
    """The slot of each token; ``tokens`` is (T,) or (batch, tokens). None: slots in the order of the tokens."""
    if cache_index is None:
        return None
    size = cache.size(1)
    if mode in BY_SLOT:
        return check_slots(op, cache_index, cache.size(0) * size).flatten()
    blocks = check_slots(op, cache_index, cache.size(0)).flatten()
    if ends is None:
        position = torch.arange(tokens[-1]).repeat(tokens[0] if len(tokens) > 1 else 1)
        run = torch.arange(position.numel()) // tokens[-1] * (-(-tokens[-1] // size)) + position // size
        return blocks[run] * size + position % size
    return _slots_of_sequences(blocks, ends, tokens[0], size)


def _slots_of_sequences(blocks: Tensor, ends: Tensor, tokens: int, size: int) -> Tensor:
    """The slots of packed sequences, each with blocks of its own."""
    starts = torch.cat([ends.new_zeros(1), ends[:-1]]).long()
    runs = -(-(ends.long() - starts) // size)
    first_run = torch.cat([runs.new_zeros(1), runs.cumsum(0)[:-1]])
    token = torch.arange(tokens)
    sequence = torch.searchsorted(ends.long(), token, right=True)
    position = token - starts[sequence]
    return blocks[first_run[sequence] + position // size] * size + position % size


def write_rows(cache: Tensor, rows: Tensor, slots: Tensor | None, mode: str) -> None:
    """Writes ``rows`` (T, channels) into ``cache``."""
    if slots is None:
        cache.copy_(rows.reshape(cache.shape))
        return
    kept = slots >= 0
    chosen, rows = slots[kept].long(), rows[kept]
    block, offset = chosen // cache.size(1), chosen % cache.size(1)
    if mode.endswith("NZ"):
        part = NZ_BYTES // cache.element_size()
        whole = cache.view(cache.size(0), -1, cache.size(1), part)
        whole.transpose(1, 2)[block, offset] = rows.unflatten(-1, (-1, part))
    else:
        cache[block, offset, 0] = rows
