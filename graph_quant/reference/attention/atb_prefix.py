"""ATB's attention over a paged prefix: queries are the last tokens of their sequences, all keys are in pages.

Arithmetic as in ``atb``. Without slopes the attention is causal. A mask for slopes has the first 256 rows and columns
of a larger one. For keys outside of the query's own block of 128 the kernel reads its second 128 rows and adds 128 for
each block further left; for square roots it does so to their squares. Then it multiplies by the slope. A mask that does
not depend on the distance alone is refused, because the rows that are read then depend on the tiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .atb import checked_lengths, split_heads
from .atb_pages import PagedCache, attend_last_tokens, check_triangle
from .sequence_attention import ScoreMod

TRIANGLE, SLOPES, ROOTS, CAUSAL = 3, 4, 5, 9
SIDE, BLOCK = 256, 128


def _distances(op: str, mask: Tensor) -> Tensor:
    """The values of ``mask`` by distance of query and key, starting at distance 1 - SIDE."""
    wide = mask.float()
    positions = torch.arange(SIDE, device=mask.device)
    by_distance = torch.cat([wide[0].flip(0), wide[1:, 0]])
    if not torch.equal(by_distance[positions.unsqueeze(1) - positions + SIDE - 1], wide):
        raise Refusal(f"{op}: mask[i, j] must depend on i - j alone, got another")
    return by_distance


def _shifts(kind: int, distances: Tensor, slopes: Tensor, queries: int, keys: int) -> Tensor:
    """The shift of the scores, (heads, queries, keys)."""
    rows = torch.arange(keys - queries, keys, device=slopes.device).unsqueeze(1)
    columns = torch.arange(keys, device=slopes.device)
    further = (rows // BLOCK - columns // BLOCK - 1).clamp(min=0) * BLOCK
    # Keys above the diagonal are read within the query's own block; blocks after it are skipped.
    steps = distances[(rows - columns - further).clamp(min=1 - SIDE) + SIDE - 1]
    rooted = torch.where(further > 0, (steps * steps + further).sqrt(), steps)
    steps = rooted if kind == ROOTS else steps + further
    shifts = steps * slopes.reshape(-1, 1, 1)
    return shifts.masked_fill(columns // BLOCK > rows // BLOCK, -torch.inf)


def prefix_attention(
    cache: PagedCache,
    query: Tensor,
    names: tuple[str, str],
    lengths: tuple[Sequence[int], Sequence[int]],
    kind: int,
    mask: Tensor | None,
    slopes: Tensor | None,
    num_heads: int,
    scale: float,
    out: Tensor,
) -> Tensor:
    """Writes to ``out``; ``names`` are the argument names of the lengths of queries and keys."""
    most = (query.size(0), cache.most)
    queries, keys = (
        checked_lengths(cache.op, name, torch.tensor(list(values)), limit)
        for name, values, limit in zip(names, lengths, most, strict=True)
    )
    for sequence, (own, seen) in enumerate(zip(queries, keys, strict=True)):
        if (seen - own) % BLOCK:
            raise Refusal(
                f"{cache.op}: {names[1]}[{sequence}] - {names[0]}[{sequence}] must be a multiple of {BLOCK}, "
                f"got {seen - own}"
            )
    distances = None
    if kind == TRIANGLE and mask is not None:
        check_triangle(cache.op, mask)
    elif kind in (SLOPES, ROOTS) and mask is not None and slopes is not None:
        distances = _distances(cache.op, mask)

    def score_mod(part: slice, count: int) -> ScoreMod:
        own = part.stop - part.start
        if distances is not None and slopes is not None:
            return ScoreMod(_shifts(kind, distances, slopes, own, count))
        return ScoreMod(hidden=torch.ones(1, own, count, dtype=torch.bool).triu(1 + count - own))

    attend_last_tokens(cache, split_heads(query, num_heads), (queries, keys), score_mod, scale, out)
    return out


def flash_attention_prefix_v2(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Sequence[int],
    context_lens: Sequence[int],
    slopes: Tensor | None,
    mask_type: int,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Tensor,
) -> Tensor:
    """Writes to ``out``."""
    heads = num_kv_heads or num_heads
    cache = make_paged_cache("_npu_flash_attention_prefix_v2", key_cache, value_cache, block_table, heads)
    lengths, names = (seq_len, context_lens), ("seq_len", "context_lens")
    return prefix_attention(cache, query, names, lengths, mask_type, mask, slopes, num_heads, scale_value, out)


def self_attention_prefix_encoder(
    query: Tensor,
    seqlen: Sequence[int],
    kv_seqlen: Sequence[int],
    mask_type: str | None,  # noqa: ARG001 (given by kind)
    kind: int,
    **arguments: Any,
) -> Tensor:
    """As ``self_attention_prefix_encoder_out``, in a new tensor."""
    if sum(seqlen) != query.size(0) or not all((*seqlen, *kv_seqlen)):
        raise Refusal(
            f"npu_self_attention_prefix_encoder: without output the lengths must be above 0 and seqlen add up to "
            f"{query.size(0)}, the tokens: the rest is not written, got {list(seqlen)} and {list(kv_seqlen)}"
        )
    arguments |= {"query": query, "seqlen": seqlen, "kv_seqlen": kv_seqlen, "kind": kind}
    return self_attention_prefix_encoder_out(**arguments, output=torch.empty_like(query))


def self_attention_prefix_encoder_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_tables: Tensor,
    seqlen: Sequence[int],
    kv_seqlen: Sequence[int],
    q_headnum: int,
    qk_scale: float,
    kv_headnum: int,
    mask: Tensor | None,
    slopes: Tensor | None,
    kind: int,
    output: Tensor,
) -> Tensor:
    """Writes the attention to ``output``."""
    cache = make_paged_cache("npu_self_attention_prefix_encoder", key, value, block_tables, kv_headnum)
    lengths, names = (seqlen, kv_seqlen), ("seqlen", "kv_seqlen")
    return prefix_attention(cache, query, names, lengths, kind, mask, slopes, q_headnum, qk_scale, output)


def make_paged_cache(op: str, key: Tensor, value: Tensor, table: Tensor, heads: int) -> PagedCache:
    """A paged cache from tensors whose last dimension may be heads * channels."""
    key, value = (cache.reshape(*cache.shape[:2], heads, -1) for cache in (key, value))
    return PagedCache(op, key, value, table, heads)
