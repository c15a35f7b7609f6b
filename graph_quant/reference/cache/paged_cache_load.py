"""npu_paged_cache_load: tokens of sequences out of a paged cache, each from the block that its start is in."""

from __future__ import annotations

from itertools import pairwise

from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_paged_cache_load"


def lengths_of(context_lens: Tensor, cumsum: bool) -> list[int]:
    """How many tokens each sequence has."""
    given: list[int] = context_lens.tolist()
    return [end - start for start, end in pairwise(given)] if cumsum else given


def load(
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    seq_starts: Tensor | None,
    cumsum: bool,
) -> tuple[Tensor, Tensor]:
    """The tokens in tensors of their own."""
    tokens = sum(lengths_of(context_lens, cumsum))
    key, value = (cache.new_empty(tokens, *cache.shape[2:]) for cache in (key_cache, value_cache))
    return load_into(key_cache, value_cache, block_table, context_lens, seq_starts, cumsum, key, value)


def load_into(
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    seq_starts: Tensor | None,
    cumsum: bool,
    key: Tensor,
    value: Tensor,
) -> tuple[Tensor, Tensor]:
    """Copies the tokens; what is beyond their sum stays as it is."""
    lengths = lengths_of(context_lens, cumsum)
    starts = [0] * len(lengths) if seq_starts is None else seq_starts.tolist()
    if min(lengths, default=0) < 0 or sum(lengths) > key.size(0):
        raise Refusal(f"{OP}: context_lens must not be negative and have a sum of at most {key.size(0)}, got {lengths}")
    at = 0
    for place, (first, length) in enumerate(zip(starts, lengths, strict=True)):
        slots = _slots(key_cache, block_table, place, first, length)
        for cache, out in ((key_cache, key), (value_cache, value)):
            out[at : at + length] = cache.flatten(0, 1)[slots]
        at += length
    return key, value


def _slots(cache: Tensor, block_table: Tensor, place: int, first: int, length: int) -> Tensor:
    blocks, size = cache.shape[:2]
    if first < 0:
        raise Refusal(f"{OP}: seq_starts[{place}] must be at least 0, got {first}")
    last = first // size - (-length // size)
    if last > block_table.size(1):
        raise Refusal(f"{OP}: block_table must have {last} columns for sequence {place}, got {block_table.size(1)}")
    chosen = block_table[place, first // size : last].long()
    wrong = chosen[(chosen < 0) | (chosen >= blocks)]
    if wrong.numel():
        raise Refusal(f"{OP}: block_table[{place}] must lie in [0, {blocks}), got {int(wrong[0])}")
    return (chosen[:, None] * size + _places(size, chosen)).flatten()[:length]


def _places(size: int, like: Tensor) -> Tensor:
    return like.new_ones(size).cumsum(0) - 1
