"""npu_sparse_lightning_indexer_grad_kl_loss: the KL loss of the indexer against attention over its selected keys.

A token uses as many of its indices as it sees keys, causal from the lower right corner. The target p is the mean over
heads of ``exp(scale * q @ k - max) / sum``; the prediction y is the softmax of ``sum over heads of w * relu(q @ k)``.
The loss sums ``p * (log p - log y)``, both clamped to 1e-8. The gradient of a score is ``y - p``; its product with the
weight is rounded to the dtype before the matmuls, half away from zero, and so is the gradient of a weight. Sums are
float32; their order is the device's own.
"""

from __future__ import annotations

import torch
from graph_quant.reference.rounding import rounded_away
from torch import Tensor

from .dense_lightning_indexer import EPSILON, Ends, sequence_indices
from .sequences import checked_indices

OP = "npu_sparse_lightning_indexer_grad_kl_loss"


def grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    query_rope: Tensor,
    key_rope: Tensor,
    actual_seq_qlen: Ends,
    actual_seq_klen: Ends,
    layout: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query_index, key_index and weights, and the loss."""
    query, key = torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)
    largest, total = (tensor.squeeze(-3).unsqueeze(-1) for tensor in (softmax_max, softmax_sum))
    gradients = [torch.zeros(tensor.shape) for tensor in (query_index, key_index, weights)]
    loss = torch.zeros(1)
    spans = sequence_indices(layout, query_index, actual_seq_qlen), sequence_indices(layout, key_index, actual_seq_klen)
    seen_before = 0
    for q_slice, k_slice in zip(*spans, strict=True):
        own, own_index = key[k_slice][:, 0].float(), key_index[k_slice][:, 0].float()
        tokens, keys = query[q_slice].size(0), own.size(0)
        for token in range(tokens):
            indices = sparse_indices[q_slice][token, 0]
            count = min(keys - tokens + token + 1, indices.size(0))
            key_indices = checked_indices(OP, seen_before + token, indices[:count], keys)
            scores = query[q_slice][token].float() @ own[key_indices].mT * scale_value
            attention = ((scores - largest[q_slice][token]).exp() / total[q_slice][token]).sum(0) * (
                1.0 / query.size(-2)
            )
            rows, gates = query_index[q_slice][token].float(), weights[q_slice][token].float().unsqueeze(1)
            products = (rows @ own_index[key_indices].mT).relu_()
            predicted = (products * gates).sum(0).softmax(0)
            target = attention.clamp_min(EPSILON)
            loss += ((target.log() - predicted.clamp_min(EPSILON).log()) * target).sum()
            grad_scores = predicted - attention
            grad_dots = rounded_away((grad_scores * gates).masked_fill_(products <= 0, 0.0), query_index.dtype).float()
            gradients[0][q_slice][token] = grad_dots @ own_index[key_indices]
            gradients[1][k_slice][:, 0].index_add_(0, key_indices, grad_dots.mT @ rows)
            gradients[2][q_slice][token] = (grad_scores * products).sum(-1)
        seen_before += tokens
    grad_weights = gradients[2] if weights.dtype == torch.float32 else rounded_away(gradients[2], weights.dtype)
    return gradients[0].to(query_index.dtype), gradients[1].to(key_index.dtype), grad_weights, loss
