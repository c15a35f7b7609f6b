"""npu_block_sparse_attention_backward: the gradients of query, key and value, from the log-sum-exp.

``p = exp(scale * q @ k.T - lse)``, ``dv = p.T @ do``, ``ds = p * (do @ v.T - sum(do * out))``, ``dq = scale * ds @ k``,
``dk = scale * ds.T @ q``; heads that share keys add up. Float32; p and ds are rounded to query's dtype
before their matmuls, because the matrix unit takes no other dtype. A device accumulates dk and dv in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .block_sparse_attention import expand_block_mask, sequence_spans
from .layouts import from_bnsd, to_bnsd

OP = "npu_block_sparse_attention_backward"


def block_sparse_attention_backward(
    d_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    softmax_lse: Tensor,
    block_sparse_mask: Tensor,
    blocks: tuple[int, int],
    actual_seq_lengths: Sequence[int] | None,
    actual_seq_lengths_kv: Sequence[int] | None,
    q_input_layout: str,
    scale_value: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The three gradients; zeros for tokens outside of all sequences."""
    tensors = (query, key, value, d_out, attention_out, softmax_lse)
    q, k, v, upstream, out, lse = (to_bnsd(tensor, q_input_layout, 1).float() for tensor in tensors)
    gradients = [torch.zeros(tensor.shape) for tensor in (q, k, v)]
    queries = sequence_spans(OP, "actual_seq_lengths", q_input_layout, actual_seq_lengths, q)
    keys = sequence_spans(OP, "actual_seq_lengths_kv", q_input_layout, actual_seq_lengths_kv, k)
    for sequence, (rows, columns) in enumerate(zip(queries, keys, strict=True)):
        if not rows.length or not columns.length:
            continue
        query_index = (rows.batch, slice(None), slice(rows.start, rows.stop))
        key_index = (columns.batch, slice(None), slice(columns.start, columns.stop))
        shared_keys, shared_values = (_repeat_heads(x[key_index], q.size(1)) for x in (k, v))
        hidden = expand_block_mask(OP, block_sparse_mask, blocks, sequence, rows.length, columns.length)
        scores = (q[query_index] @ shared_keys.mT * scale_value).masked_fill(hidden, -torch.inf)
        weights = (scores - lse[query_index]).exp()
        delta = (upstream[query_index] * out[query_index]).sum(-1, keepdim=True)
        grad_scores = (weights * (upstream[query_index] @ shared_values.mT - delta)).to(query.dtype).float()
        gradients[0][query_index] = grad_scores @ shared_keys * scale_value
        gradients[1][key_index] = _add_groups(grad_scores.mT @ q[query_index] * scale_value, k.size(1))
        gradients[2][key_index] = _add_groups(weights.to(query.dtype).float().mT @ upstream[query_index], k.size(1))
    dq, dk, dv = (from_bnsd(tensor.to(query.dtype), q_input_layout) for tensor in gradients)
    return dq, dk, dv


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """The heads of keys or values, each once for every head of queries that shares it."""
    return x.repeat_interleave(heads // x.size(0), 0)


def _add_groups(x: Tensor, heads: int) -> Tensor:
    """The sums over the heads of queries that share a head of keys."""
    return x.unflatten(0, (heads, -1)).sum(1)
