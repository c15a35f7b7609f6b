"""Attention as ATB has it: one token of each sequence over a paged cache, and whole sequences one after the other.

In float32 but for weights, which are rounded to the dtype of the values before the second product; the result is
rounded once. Results are written to ``out``; what no sequence reaches there stays as it is.
"""

from __future__ import annotations

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .arithmetic import Arithmetic
from .core import Cached, Rows, Sight, attend
from .paging import Pages, blocks_of


def _lengths(op: str, name: str, given: Tensor, most: int) -> list[int]:
    lengths: list[int] = given.tolist()
    for place, length in enumerate(lengths):
        if not 0 <= length <= most:
            raise Refusal(f"{op}: {name}[{place}] must lie in [0, {most}], got {length}")
    return lengths


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
    op, (blocks, size) = "_npu_paged_attention", key_cache.shape[:2]
    arithmetic = Arithmetic(scale_value, value_cache.dtype)
    for place, length in enumerate(_lengths(op, "context_lens", context_lens, block_table.size(1) * size)):
        if length:
            chosen = blocks_of(op, block_table, place, length, size, blocks)
            keys, values = (Pages(each.flatten(2), chosen, length, num_kv_heads) for each in (key_cache, value_cache))
            found, _ = attend(query[place][:, None], Cached([keys]), Cached([values]), Sight(), arithmetic)
            out[place] = found.squeeze(1).to(out.dtype).reshape(out.shape[1:])
    return ()


def no_workspace(query: Tensor) -> Tensor:
    """A workspace of no bytes: the host computes without one."""
    return torch.empty(0, dtype=torch.uint8, device=query.device)


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
    """Writes the attention of sequences over themselves; ``mask`` is added to their scores."""
    lengths = _lengths("_npu_flash_attention", "seq_len", seq_len, mask.size(-1))
    if sum(lengths) > query.size(0):
        raise Refusal(
            f"_npu_flash_attention: the sum of seq_len must not exceed {query.size(0)}, the tokens, got {sum(lengths)}"
        )
    heads = (num_heads, num_kv_heads, num_kv_heads)
    q, k, v = (x.reshape(x.size(0), n, -1).transpose(0, 1) for x, n in zip((query, key, value), heads, strict=True))
    masks, start = mask.reshape(-1, *mask.shape[-2:]), 0
    for place, length in enumerate(lengths):
        part = slice(start, start + length)
        shift = masks[place if masks.size(0) > 1 else 0, :length, :length].unsqueeze(0)
        keys, values = (Cached([Rows(each[:, part])]) for each in (k, v))
        found, _ = attend(q[:, part], keys, values, Sight(shift), Arithmetic(scale_value, value.dtype))
        out[part] = found.transpose(0, 1).to(out.dtype).reshape(length, *out.shape[1:])
        start += length
    return ()
