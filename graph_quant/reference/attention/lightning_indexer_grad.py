"""npu_lightning_indexer_grad: the gradients of ``sum over heads of w * relu(q @ k)`` over selected keys.

In mode 3 a token uses as many of its indices as it sees keys, causal from the lower right corner; in mode 0 all. Dot
products are accumulated in float32. The gradient of a dot product, ``dy * w``, is rounded to the dtype, and 0 where the
dot product is not positive. The gradient of a weight is rounded half away from zero. The order of summation is the
device's own.
"""

from __future__ import annotations

import torch
from graph_quant.reference.rounding import rounded_away
from torch import Tensor

from .sequences import BSND, CAUSAL, KeySequences, checked_indices, query_spans

OP = "npu_lightning_indexer_grad"


def lightning_indexer_grad(
    query: Tensor,
    key: Tensor,
    dy: Tensor,
    sparse_indices: Tensor,
    weights: Tensor,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    layout: str | None,
    sparse_mode: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and weights."""
    used_layout, mode, dtype = layout or BSND, sparse_mode or 0, query.dtype
    heads, chosen = query.size(-2), sparse_indices.size(-1)
    queries = query_spans(OP, used_layout, actual_seq_lengths_query, query)
    keys = KeySequences(OP, "actual_seq_lengths_key", used_layout, actual_seq_lengths_key, None, key)
    rows, gates = query.reshape(-1, heads, query.size(-1)), weights.reshape(-1, heads)
    indices, upstream = sparse_indices.reshape(-1, chosen), dy.reshape(-1, chosen)
    grad_query, grad_weights = (torch.zeros(tensor.shape) for tensor in (rows, gates))
    grad_key = torch.zeros(key.shape)
    for sequence, span in enumerate(queries):
        own, total = keys.rows(key, sequence).squeeze(1).float(), keys.rows(grad_key, sequence).squeeze(1)
        for row in range(span.start, span.stop):
            seen = keys.seen(sequence, span.length, row - span.start, mode) if mode == CAUSAL else chosen
            key_indices = checked_indices(OP, row, indices[row, : min(seen, chosen)], own.size(0))
            selected_keys, grad = own[key_indices], upstream[row, : key_indices.numel()].float()
            wide = rows[row].float()
            products = (wide @ selected_keys.mT).relu_()
            grad_products = (gates[row].float().unsqueeze(1) * grad).to(dtype).float().masked_fill_(products <= 0, 0.0)
            grad_query[row] = grad_products @ selected_keys
            total.index_add_(0, key_indices, grad_products.mT @ wide)
            grad_weights[row] = (products * grad).sum(-1)
    return (
        grad_query.to(dtype).reshape(query.shape),
        grad_key.to(dtype),
        rounded_away(grad_weights, dtype).reshape(weights.shape),
    )
