"""ATB's attention of one token per sequence over a paged cache, and of packed sequences over themselves.

Float32, except that weights are rounded to the dtype of the values before the second matmul; the result is rounded
once. Results are written to ``out``; rows that belong to no sequence stay unchanged. A float16 mask is added to the
scores. A bfloat16 mask is multiplied by -3e38 first by the kernels for packed sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .arithmetic import Arithmetic
from .paging import PagedTokens, checked_blocks
from .sequence_attention import CachedTokens, DenseTokens, ScoreMod, attend

BFLOAT16_MASK_VALUE = -3e38


def checked_lengths(op: str, name: str, tensor: Tensor, most: int) -> list[int]:
    lengths: list[int] = tensor.tolist()
    for index, length in enumerate(lengths):
        if not 0 <= length <= most:
            raise Refusal(f"{op}: {name}[{index}] must lie in [0, {most}], got {length}")
    return lengths


def attend_paged(
    op: str,
    query: Tensor,
    caches: tuple[Tensor, Tensor],
    num_kv_heads: int,
    scale: float,
    block_table: Tensor,
    lengths: Sequence[int],
    out: Tensor,
    mask: Tensor | None = None,
) -> None:
    """Writes the attention of one token per sequence; ``mask`` (sequence, head, 1, key) is added to its scores."""
    blocks, size = caches[0].shape[:2]
    arithmetic = Arithmetic(scale, caches[1].dtype)
    for sequence, length in enumerate(lengths):
        if length:
            block_ids = checked_blocks(op, block_table, sequence, length, size, blocks)
            keys, values = (PagedTokens(cache.flatten(2), block_ids, length, num_kv_heads) for cache in caches)
            score_mod = ScoreMod(None if mask is None else mask[sequence, ..., :length])
            result, _ = attend(
                query[sequence][:, None], CachedTokens([keys]), CachedTokens([values]), score_mod, arithmetic
            )
            out[sequence] = result.squeeze(1).to(out.dtype).reshape(out.shape[1:])


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
) -> tuple[()]:
    """Writes the attention of each token of ``query`` (sequences, heads, channels) over its own sequence."""
    op = "_npu_paged_attention"
    lengths = checked_lengths(op, "context_lens", context_lens, block_table.size(1) * key_cache.size(1))
    attend_paged(op, query, (key_cache, value_cache), num_kv_heads, scale_value, block_table, lengths, out)
    return ()


def paged_attention_v2(
    query: Tensor,
    key_cache: Tensor,
    block_table: Tensor,
    context_lens: Sequence[int],
    value_cache: Tensor,
    mask: Tensor | None,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    has_mask: bool,
    out: Tensor,
) -> Tensor:
    """As ``paged_attention``, with ``mask`` added to the scores; (head, 1, key) is shared by all sequences."""
    op, most = "_npu_paged_attention_v2", block_table.size(1) * key_cache.size(1)
    expanded_mask = None
    if has_mask and mask is not None:
        expanded_mask, most = mask.expand(query.size(0), num_heads, 1, -1), min(most, mask.size(-1))
        if max(context_lens, default=0) < 1:
            raise Refusal(f"{op}: context_lens must have a length above 0 beside a mask, got {list(context_lens)}")
    lengths = checked_lengths(op, "context_lens", torch.tensor(context_lens), most)
    caches = (key_cache, value_cache)
    attend_paged(op, query, caches, num_kv_heads or num_heads, scale_value, block_table, lengths, out, expanded_mask)
    return out


def empty_workspace(query: Tensor) -> Tensor:
    """An empty workspace: the host needs none."""
    return torch.empty(0, dtype=torch.uint8, device=query.device)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(token, head * channel) or (token, head, channel) as (head, token, channel)."""
    return x.reshape(x.size(0), heads, -1).transpose(0, 1)


def check_sum(op: str, name: str, lengths: Sequence[int], tokens: int) -> None:
    if sum(lengths) > tokens:
        raise Refusal(f"{op}: the sum of {name} must not exceed {tokens}, the tokens, got {sum(lengths)}")


def attend_packed(
    op: str,
    tensors: tuple[Tensor, Tensor, Tensor],
    shifts: Callable[[int, int], Tensor | None],
    lengths: Sequence[int],
    scale: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> None:
    """Writes the self-attention of packed sequences; ``shifts`` returns what is added to the scores of one."""
    query, key, value = tensors
    check_sum(op, "seq_len", lengths, query.size(0))
    q, k, v = (
        split_heads(query, num_heads),
        split_heads(key, num_kv_heads),
        split_heads(value, num_kv_heads),
    )
    start = 0
    for sequence, length in enumerate(lengths):
        span = slice(start, start + length)
        keys, values = (CachedTokens([DenseTokens(heads[:, span])]) for heads in (k, v))
        score_mod = ScoreMod(shifts(sequence, length))
        result, _ = attend(q[:, span], keys, values, score_mod, Arithmetic(scale, value.dtype))
        out[span] = result.transpose(0, 1).to(out.dtype).reshape(length, *out.shape[1:])
        start += length


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> tuple[()]:
    """Writes the self-attention of packed sequences; ``mask`` is added to their scores."""
    op, masks = "_npu_flash_attention", mask.reshape(-1, *mask.shape[-2:])

    def shift(sequence: int, length: int) -> Tensor:
        part = masks[sequence if masks.size(0) > 1 else 0, :length, :length].unsqueeze(0)
        return part.float() * BFLOAT16_MASK_VALUE if part.dtype == torch.bfloat16 else part

    lengths = checked_lengths(op, "seq_len", seq_len, mask.size(-1))
    attend_packed(op, (query, key, value), shift, lengths, scale_value, num_heads, num_kv_heads, out)
    return ()


def flash_attention_unpad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> tuple[()]:
    """Writes the self-attention of packed sequences without a mask."""
    op = "_npu_flash_attention_unpad"
    lengths = checked_lengths(op, "seq_len", seq_len, query.size(0))
    attend_packed(op, (query, key, value), lambda *_: None, lengths, scale_value, num_heads, num_kv_heads, out)
    return ()
