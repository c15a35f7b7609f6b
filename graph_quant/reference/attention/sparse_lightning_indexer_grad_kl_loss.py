"""npu_sparse_lightning_indexer_grad_kl_loss: the loss of the indexer against attention over the keys that it chose.

Of a token's indices so many count as it sees keys, up to the diagonal from the lower right corner. The target is the
mean over heads of ``exp(scale q k - max) / sum``; what the indexer gives is the softmax of ``sum over heads of w relu(q
k)``. The loss sums ``p (log p - log y)``, where neither is below 1e-8. The gradient of a score is y - p; times the
weight it is rounded to the dtype before its products, to the larger magnitude where two are as near, and so is the
gradient of a weight. Sums are float32; their order, and that of the gradients of keys, is the device's own.
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
    largest, total = (each.squeeze(-3).unsqueeze(-1) for each in (softmax_max, softmax_sum))
    found = [torch.zeros(each.shape) for each in (query_index, key_index, weights)]
    loss = torch.zeros(1)
    spans = sequence_indices(layout, query_index, actual_seq_qlen), sequence_indices(layout, key_index, actual_seq_klen)
    seen_before = 0
    for at, over in zip(*spans, strict=True):
        own, own_index = key[over][:, 0].float(), key_index[over][:, 0].float()
        tokens, keys = query[at].size(0), own.size(0)
        for token in range(tokens):
            indices = sparse_indices[at][token, 0]
            count = min(keys - tokens + token + 1, indices.size(0))
            places = checked_indices(OP, seen_before + token, indices[:count], keys)
            scores = query[at][token].float() @ own[places].mT * scale_value
            wanted = ((scores - largest[at][token]).exp() / total[at][token]).sum(0) * (1.0 / query.size(-2))
            rows, gates = query_index[at][token].float(), weights[at][token].float().unsqueeze(1)
            products = (rows @ own_index[places].mT).relu_()
            given = (products * gates).sum(0).softmax(0)
            target = wanted.clamp_min(EPSILON)
            loss += ((target.log() - given.clamp_min(EPSILON).log()) * target).sum()
            slopes = given - wanted
            each = rounded_away((slopes * gates).masked_fill_(products <= 0, 0.0), query_index.dtype).float()
            found[0][at][token] = each @ own_index[places]
            found[1][over][:, 0].index_add_(0, places, each.mT @ rows)
            found[2][at][token] = (slopes * products).sum(-1)
        seen_before += tokens
    of_weights = found[2] if weights.dtype == torch.float32 else rounded_away(found[2], weights.dtype)
    return found[0].to(query_index.dtype), found[1].to(key_index.dtype), of_weights, loss
