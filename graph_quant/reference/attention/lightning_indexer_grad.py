"""npu_lightning_indexer_grad: through ``sum over heads of w relu(q k)`` of the keys that each token chose.

In mode 3 a token counts the keys that it sees, up to the diagonal from the lower right corner, and so many of its
indices; in mode 0 all. Products are summed in float32. The gradient of a product, dy w, is rounded to the dtype, and 0
where the product is not above 0. The gradient of a weight is rounded to the larger magnitude where two are as near. In
which order a device adds, and adds up the gradients of keys, is its own.
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
    stands, mode, kind = layout or BSND, sparse_mode or 0, query.dtype
    heads, chosen = query.size(-2), sparse_indices.size(-1)
    queries = query_spans(OP, stands, actual_seq_lengths_query, query)
    keys = KeySequences(OP, "actual_seq_lengths_key", stands, actual_seq_lengths_key, None, key)
    rows, gates = query.reshape(-1, heads, query.size(-1)), weights.reshape(-1, heads)
    indices, upstream = sparse_indices.reshape(-1, chosen), dy.reshape(-1, chosen)
    of_query, of_weights = (torch.zeros(each.shape) for each in (rows, gates))
    of_key = torch.zeros(key.shape)
    for sequence, span in enumerate(queries):
        own, total = keys.rows(key, sequence).squeeze(1).float(), keys.rows(of_key, sequence).squeeze(1)
        for row in range(span.start, span.stop):
            seen = keys.seen(sequence, span.length, row - span.start, mode) if mode == CAUSAL else chosen
            places = checked_indices(OP, row, indices[row, : min(seen, chosen)], own.size(0))
            found, given = own[places], upstream[row, : places.numel()].float()
            wide = rows[row].float()
            products = (wide @ found.mT).relu_()
            slopes = (gates[row].float().unsqueeze(1) * given).to(kind).float().masked_fill_(products <= 0, 0.0)
            of_query[row] = slopes @ found
            total.index_add_(0, places, slopes.mT @ wide)
            of_weights[row] = (products * given).sum(-1)
    return (
        of_query.to(kind).reshape(query.shape),
        of_key.to(kind),
        rounded_away(of_weights, kind).reshape(weights.shape),
    )
