"""ATB's attention of several tokens per sequence over a paged cache, and over one cache for keys and values.

Queries are the last tokens of their sequences. Arithmetic as in ``atb``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .arithmetic import Arithmetic
from .atb import check_sum, checked_lengths, paged_attention, split_heads
from .paging import PagedTokens, checked_blocks
from .sequence_attention import CachedTokens, ScoreMod, attend


@dataclass(frozen=True)
class PagedCache:
    """Keys and values in blocks, and the block table."""

    op: str
    key: Tensor
    value: Tensor
    table: Tensor
    heads: int

    def of(self, sequence: int, length: int) -> tuple[CachedTokens, CachedTokens]:
        blocks, size = self.key.shape[:2]
        block_ids = checked_blocks(self.op, self.table, sequence, length, size, blocks)
        keys, values = (
            PagedTokens(cache.flatten(2), block_ids, length, self.heads) for cache in (self.key, self.value)
        )
        return CachedTokens([keys]), CachedTokens([values])

    @property
    def most(self) -> int:
        return self.table.size(1) * self.key.size(1)


def attend_last_tokens(
    cache: PagedCache,
    query: Tensor,
    lengths: tuple[Sequence[int], Sequence[int]],
    score_mods: Callable[[slice, int], ScoreMod],
    scale: float,
    out: Tensor,
) -> None:
    """Writes the attention of the last tokens of sequences, ``query`` (head, token, channel), over their pages."""
    check_sum(cache.op, "seq_len", lengths[0], query.size(1))
    start = 0
    for sequence, (queries, keys) in enumerate(zip(*lengths, strict=True)):
        span = slice(start, start + queries)
        start += queries
        if not queries or not keys:
            continue
        if queries > keys:
            raise Refusal(
                f"{cache.op}: seq_len[{sequence}] must be at most context_lens[{sequence}], {keys}, got {queries}"
            )
        arithmetic = Arithmetic(scale, cache.value.dtype)
        result, _ = attend(query[:, span], *cache.of(sequence, keys), score_mods(span, keys), arithmetic)
        out[span] = result.transpose(0, 1).to(out.dtype).reshape(queries, *out.shape[1:])


def paged_attention_splitfuse(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Tensor,
) -> tuple[()]:
    """Paged attention in which row i of ``mask`` is added to the scores of query i."""
    cache = PagedCache("_npu_paged_attention_splitfuse", key_cache, value_cache, block_table, num_kv_heads)
    keys = checked_lengths(cache.op, "context_lens", context_lens, min(cache.most, mask.size(1)))
    lengths = checked_lengths(cache.op, "seq_len", seq_len, query.size(0)), keys

    def score_mod(part: slice, count: int) -> ScoreMod:
        return ScoreMod(mask[part, :count].unsqueeze(0))

    attend_last_tokens(cache, split_heads(query, num_heads), lengths, score_mod, scale_value, out)
    return ()


def flash_attention_qlens(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    context_lens: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Tensor,
) -> tuple[()]:
    """Causal paged attention; ``mask`` is the kernel's triangle table."""
    cache = PagedCache("_npu_flash_attention_qlens", key_cache, value_cache, block_table, num_kv_heads)
    check_triangle(cache.op, mask)
    keys = checked_lengths(cache.op, "context_lens", context_lens, cache.most)
    lengths = checked_lengths(cache.op, "seq_len", seq_len, query.size(0)), keys

    def score_mod(part: slice, count: int) -> ScoreMod:
        queries = part.stop - part.start
        return ScoreMod(hidden=torch.ones(1, queries, count, dtype=torch.bool).triu(1 + count - queries))

    attend_last_tokens(cache, split_heads(query, num_heads), lengths, score_mod, scale_value, out)
    return ()


def check_triangle(op: str, mask: Tensor) -> None:
    """Refuses a mask that is not triangular: 1 above the diagonal in bfloat16, -10000 or less in float16."""
    masked = mask == 1 if mask.dtype == torch.bfloat16 else mask <= -10000
    expected = torch.ones(mask.shape[-2:], dtype=torch.bool).triu(1)
    if not (torch.equal(masked, expected.expand_as(masked)) and torch.equal(mask != 0, masked)):
        value = "1" if mask.dtype == torch.bfloat16 else "at most -10000"
        raise Refusal(f"{op}: the values of mask must be {value} above its diagonal and 0 elsewhere")


def paged_mla(
    query: Tensor,
    key_cache: Tensor,
    num_kv_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    mla_vheadsize: int,
    out: Tensor,
) -> tuple[()]:
    """Paged attention of one token per sequence, whose values are the first channels of its keys."""
    values = key_cache[..., :mla_vheadsize]
    return paged_attention(query, key_cache, values, num_kv_heads, scale_value, block_table, context_lens, out)
