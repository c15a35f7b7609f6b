"""npu_sparse_flash_attention_grad: through the softmax of the keys that each token chose.

In mode 3 a token counts the keys that it sees, up to the diagonal from the lower right corner, in mode 0 all, and so
many of its indices. Weights come from the largest scores and the sums of the forward call. Weights, and the gradient of
scores, are rounded to the dtype before their products, to the larger magnitude where two are as near; sums are float32,
and the gradients of queries and keys are multiplied by the scale at the end. In which order a device adds is its own.
"""

from __future__ import annotations

import torch
from graph_quant.reference.rounding import rounded_away
from torch import Tensor

from .sequences import BSND, KeySequences, checked_indices, query_spans
from .sparse_flash_attention import check_same_values

OP = "npu_sparse_flash_attention_grad"


def sparse_flash_attention_grad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    d_out: Tensor,
    out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    query_rope: Tensor,
    key_rope: Tensor,
    actual_seq_qlen: Tensor | None,
    actual_seq_kvlen: Tensor | None,
    layout: str | None,
    sparse_mode: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key and value, and of the rope parts of both."""
    stands, mode, kind = layout or BSND, 3 if sparse_mode is None else sparse_mode, query.dtype
    check_same_values(OP, value, key)
    heads, width = query.size(-2), query.size(-1)
    queries = query_spans(OP, stands, actual_seq_qlen, query)
    keys = KeySequences(OP, "actual_seq_kvlen", stands, actual_seq_kvlen, None, key)
    joined = torch.cat([query, query_rope], -1).flatten(0, -3).float()
    upstream, result = (each.reshape(-1, heads, width).float() for each in (d_out, out))
    largest, total = (each.reshape(-1, heads, 1) for each in (softmax_max, softmax_sum))
    indices = sparse_indices.flatten(0, -2)
    both = torch.cat([key, key_rope], -1)
    of_query, of_key, of_value = (torch.zeros(each.shape) for each in (joined, both, key))
    for sequence, span in enumerate(queries):
        own, key_sums, value_sums = (keys.rows(each, sequence).squeeze(1) for each in (both, of_key, of_value))
        for row in range(span.start, span.stop):
            seen = keys.seen(sequence, span.length, row - span.start, mode)
            places = checked_indices(OP, row, indices[row, : min(seen, indices.size(1))], own.size(0))
            found = own[places].float()
            weights = (joined[row] @ found.mT * scale_value - largest[row]).exp() / total[row]
            spread = (upstream[row] * result[row]).sum(-1, keepdim=True)
            slopes = rounded_away(weights * (upstream[row] @ found[:, :width].mT - spread), kind).float()
            of_query[row] = slopes @ found
            key_sums.index_add_(0, places, slopes.mT @ joined[row])
            value_sums.index_add_(0, places, rounded_away(weights, kind).float().mT @ upstream[row])
    scaled = (of_query * scale_value).to(kind).reshape(*query.shape[:-1], -1), (of_key * scale_value).to(kind)
    parts = [[part.contiguous() for part in each.tensor_split([width], -1)] for each in scaled]
    return parts[0][0], parts[1][0], of_value.to(kind), parts[0][1], parts[1][1]
