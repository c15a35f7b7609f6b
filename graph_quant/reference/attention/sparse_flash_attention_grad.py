"""npu_sparse_flash_attention_grad: the gradients of attention over the keys that each token selects.

In mode 3 a token uses as many of its indices as it sees keys, causal from the lower right corner; in mode 0 all.
Weights are recomputed from the maxima and sums of the forward call. Weights and the gradients of scores are rounded to
the dtype before their matmuls, half away from zero; sums are float32, and the gradients of queries and keys are scaled
at the end. The order of summation is the device's own.
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
    used_layout, mode, dtype = layout or BSND, 3 if sparse_mode is None else sparse_mode, query.dtype
    check_same_values(OP, value, key)
    heads, width = query.size(-2), query.size(-1)
    queries = query_spans(OP, used_layout, actual_seq_qlen, query)
    keys = KeySequences(OP, "actual_seq_kvlen", used_layout, actual_seq_kvlen, None, key)
    joined = torch.cat([query, query_rope], -1).flatten(0, -3).float()
    upstream, result = (tensor.reshape(-1, heads, width).float() for tensor in (d_out, out))
    largest, total = (tensor.reshape(-1, heads, 1) for tensor in (softmax_max, softmax_sum))
    indices = sparse_indices.flatten(0, -2)
    both = torch.cat([key, key_rope], -1)
    grad_query, grad_key, grad_value = (torch.zeros(tensor.shape) for tensor in (joined, both, key))
    for sequence, span in enumerate(queries):
        own, key_sums, value_sums = (keys.rows(tensor, sequence).squeeze(1) for tensor in (both, grad_key, grad_value))
        for row in range(span.start, span.stop):
            seen = keys.seen(sequence, span.length, row - span.start, mode)
            key_indices = checked_indices(OP, row, indices[row, : min(seen, indices.size(1))], own.size(0))
            selected_keys = own[key_indices].float()
            weights = (joined[row] @ selected_keys.mT * scale_value - largest[row]).exp() / total[row]
            delta = (upstream[row] * result[row]).sum(-1, keepdim=True)
            grad_scores = rounded_away(weights * (upstream[row] @ selected_keys[:, :width].mT - delta), dtype).float()
            grad_query[row] = grad_scores @ selected_keys
            key_sums.index_add_(0, key_indices, grad_scores.mT @ joined[row])
            value_sums.index_add_(0, key_indices, rounded_away(weights, dtype).float().mT @ upstream[row])
    scaled = (grad_query * scale_value).to(dtype).reshape(*query.shape[:-1], -1), (grad_key * scale_value).to(dtype)
    parts = [[part.contiguous() for part in tensor.tensor_split([width], -1)] for tensor in scaled]
    return parts[0][0], parts[1][0], grad_value.to(dtype), parts[0][1], parts[1][1]
