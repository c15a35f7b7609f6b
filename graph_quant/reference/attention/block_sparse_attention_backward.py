"""npu_block_sparse_attention_backward: the gradients of query, key and value, from the logarithms of the sums.

``p = exp(scale q k - lse)``, ``dv = p.T do``, ``ds = p (do v.T - sum(do out))``, ``dq = scale ds k``, ``dk = scale ds.T
q``. In float32; p and ds are rounded to query's dtype before their products, as the unit that multiplies takes nothing
else. A device adds the parts of dk and dv in any order.
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
    """The three gradients; zeros where no sequence is."""
    given = (query, key, value, d_out, attention_out, softmax_lse)
    q, k, v, upstream, out, lse = (to_bnsd(each, q_input_layout, 1).float() for each in given)
    found = [torch.zeros(each.shape) for each in (q, k, v)]
    queries = sequence_spans(OP, "actual_seq_lengths", q_input_layout, actual_seq_lengths, q)
    keys = sequence_spans(OP, "actual_seq_lengths_kv", q_input_layout, actual_seq_lengths_kv, k)
    for sequence, (rows, columns) in enumerate(zip(queries, keys, strict=True)):
        if not rows.length or not columns.length:
            continue
        at = (rows.batch, slice(None), slice(rows.start, rows.stop))
        over = (columns.batch, slice(None), slice(columns.start, columns.stop))
        hidden = expand_block_mask(OP, block_sparse_mask, blocks, sequence, rows.length, columns.length)
        scores = (q[at] @ k[over].mT * scale_value).masked_fill(hidden, -torch.inf)
        weights = (scores - lse[at]).exp()
        spread = (upstream[at] * out[at]).sum(-1, keepdim=True)
        slopes = (weights * (upstream[at] @ v[over].mT - spread)).to(query.dtype).float()
        found[0][at] = slopes @ k[over] * scale_value
        found[1][over] = slopes.mT @ q[at] * scale_value
        found[2][over] = weights.to(query.dtype).float().mT @ upstream[at]
    dq, dk, dv = (from_bnsd(each.to(query.dtype), q_input_layout) for each in found)
    return dq, dk, dv
