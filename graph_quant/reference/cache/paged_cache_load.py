"""npu_paged_cache_load: loads sequences from a paged cache, each beginning at the block of its start."""

from __future__ import annotations

from itertools import pairwise

from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_paged_cache_load"


def sequence_lengths(context_lens: Tensor, cumsum: bool) -> list[int]:
    """The number of tokens of every sequence."""
    lengths: list[int] = context_lens.tolist()
    return [end - start for start, end in pairwise(lengths)] if cumsum else lengths


def load(
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    seq_starts: Tensor | None,
    cumsum: bool,
) -> tuple[Tensor, Tensor]:
    """The tokens of all sequences in new tensors."""
    tokens = sum(sequence_lengths(context_lens, cumsum))
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
    """Copies the tokens into ``key`` and ``value``; rows after the last token are left unchanged."""
    lengths = sequence_lengths(context_lens, cumsum)
    starts = [0] * len(lengths) if seq_starts is None else seq_starts.tolist()
    if min(lengths, default=0) < 0 or sum(lengths) > key.size(0):
        raise Refusal(f"{OP}: context_lens must not be negative and have a sum of at most {key.size(0)}, got {lengths}")
    start = 0
    for sequence, (first, length) in enumerate(zip(starts, lengths, strict=True)):
        slots = _slots(key_cache, block_table, sequence, first, length)
        for cache, out in ((key_cache, key), (value_cache, value)):
            out[start : start + length] = cache.flatten(0, 1)[slots]
        start += length
    return key, value


def _slots(cache: Tensor, block_table: Tensor, sequence: int, first: int, length: int) -> Tensor:
    blocks, size = cache.shape[:2]
    if first < 0:
        raise Refusal(f"{OP}: seq_starts[{sequence}] must be at least 0, got {first}")
    last = first // size - (-length // size)
    if last > block_table.size(1):
        raise Refusal(f"{OP}: block_table must have {last} columns for sequence {sequence}, got {block_table.size(1)}")
    chosen = block_table[sequence, first // size : last].long()
    wrong = chosen[(chosen < 0) | (chosen >= blocks)]
    if wrong.numel():
        raise Refusal(f"{OP}: block_table[{sequence}] must lie in [0, {blocks}), got {int(wrong[0])}")
    return (chosen[:, None] * size + _offsets(size, chosen)).flatten()[:length]


def _offsets(size: int, like: Tensor) -> Tensor:
    return like.new_ones(size).cumsum(0) - 1
