"""npu_block_sparse_attention: ``softmax(scale * q @ k.T) @ v`` over the key blocks that a mask selects per query block.

Float32; weights are rounded to query's dtype for the matmul with value. A query without a visible block is refused: its
result is undocumented.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from . import token_spans
from .layouts import from_bnsd, to_bnsd
from .token_spans import TokenSpan

OP = "npu_block_sparse_attention"


def sequence_spans(op: str, name: str, layout: str, lengths: Sequence[int] | None, x: Tensor) -> list[TokenSpan]:
    if layout == "TND":
        return token_spans.packed_spans(op, name, list(accumulate(lengths or ())), x.size(2))
    return token_spans.batched_spans(op, name, lengths, x.size(0), x.size(2), -1)


def expand_block_mask(
    op: str, mask: Tensor, block_shape: Sequence[int], sequence: int, queries: int, keys: int
) -> Tensor:
    """True where one sequence is masked, (head, query, key)."""
    shown = mask[sequence].bool()
    hidden = shown.logical_not().repeat_interleave(block_shape[0], 1)[:, :queries]
    hidden = hidden.repeat_interleave(block_shape[1], 2)[:, :, :keys]
    fully_masked = hidden.all(-1)
    if bool(fully_masked.any()):
        head, query = (int(index) for index in fully_masked.nonzero()[0])
        block = query // block_shape[0]
        raise Refusal(f"{op}: block_sparse_mask[{sequence}][{head}][{block}] must show a block of keys, got none")
    return hidden


def block_sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_sparse_mask: Tensor,
    block_shape: Sequence[int],
    q_input_layout: str,
    scale_value: float,
    actual_seq_lengths: Sequence[int] | None,
    actual_seq_lengths_kv: Sequence[int] | None,
    softmax_lse_flag: int | None,
) -> tuple[Tensor, Tensor]:
    """The attention and its log-sum-exp, which is zeros unless ``softmax_lse_flag``."""
    q, k, v = (to_bnsd(tensor, q_input_layout, 1) for tensor in (query, key, value))
    group = q.size(1) // k.size(1)
    out, lse = torch.zeros(q.shape), torch.zeros(*q.shape[:3], 1)
    queries = sequence_spans(OP, "actual_seq_lengths", q_input_layout, actual_seq_lengths, q)
    keys = sequence_spans(OP, "actual_seq_lengths_kv", q_input_layout, actual_seq_lengths_kv, k)
    for sequence, (rows, columns) in enumerate(zip(queries, keys, strict=True)):
        if not rows.length or not columns.length:
            continue
        repeated = [
            x[columns.batch, :, columns.start : columns.stop].repeat_interleave(group, 0).float() for x in (k, v)
        ]
        scores = q[rows.batch, :, rows.start : rows.stop].float() @ repeated[0].mT * scale_value
        scores.masked_fill_(
            expand_block_mask(OP, block_sparse_mask, block_shape, sequence, rows.length, columns.length), -torch.inf
        )
        largest = scores.amax(-1, keepdim=True)
        weights = (scores - largest).exp()
        total = weights.sum(-1, keepdim=True)
        query_index = (rows.batch, slice(None), slice(rows.start, rows.stop))
        out[query_index] = weights.to(query.dtype).float() @ repeated[1] / total
        if softmax_lse_flag:
            lse[query_index] = largest + total.log()
    return from_bnsd(out.to(query.dtype), q_input_layout), from_bnsd(lse, q_input_layout)
