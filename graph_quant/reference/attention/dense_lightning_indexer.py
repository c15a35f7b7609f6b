"""Warm-up training of the lightning indexer: statistics of its softmax, and its KL loss against attention.

The scores of a token are ``sum over heads of w * relu(q @ k)`` for the keys that it sees: causal, aligned to the last
key. The target is the mean over heads of attention's weights, ``exp(scale * q @ k - max) / sum``; the loss is the
Kullback-Leibler divergence of the indexer's softmax from it, with probabilities clamped to 1e-8 in the logarithms. The
gradient of the scores is the difference of both. Float32; operands of matmuls with queries and keys are rounded to
their dtype first. The order of summation is the device's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

EPSILON = 1e-8
Ends = Sequence[int] | None


def sequence_indices(layout: str, x: Tensor, ends: Ends) -> Iterator[tuple[slice | int, ...]]:
    """The index of each sequence in ``x``."""
    if layout == "BSND":
        yield from ((batch,) for batch in range(x.size(0)))
        return
    first = 0
    for last in ends or ():
        yield (slice(first, last),)
        first = last


def _causal_mask(scores: Tensor) -> Tensor:
    rows, keys = scores.shape[-2:]
    return torch.ones(rows, keys, dtype=torch.bool, device=scores.device).triu(keys - rows + 1)


def _dot_products(query: Tensor, key: Tensor) -> Tensor:
    """Dot products (heads, rows, keys) of (rows, heads, channels) and (keys, heads or 1, channels)."""
    return query.transpose(0, 1).float() @ key.permute(1, 2, 0).float()


def _scores(query: Tensor, key: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of one sequence, (rows, keys), and the dot products of each head after ReLU."""
    seen = _dot_products(query, key).relu_()
    scores = (seen * weights.t().unsqueeze(-1).float()).sum(0)
    return scores.masked_fill_(_causal_mask(scores), -torch.inf), seen


def softmax_lse(
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    actual_seq_qlen: Ends,
    actual_seq_klen: Ends,
    layout: str,
) -> tuple[Tensor, Tensor]:
    """The largest score m of each token, and the sum of ``exp(score - m)``."""
    largest, total = [], []
    spans = (
        sequence_indices(layout, query_index, actual_seq_qlen),
        sequence_indices(layout, key_index, actual_seq_klen),
    )
    for at, over in zip(*spans, strict=True):
        if not query_index[at].size(0):
            continue
        scores, _ = _scores(query_index[at], key_index[over], weights[at])
        largest.append(scores.amax(-1))
        total.append((scores - largest[-1].unsqueeze(-1)).exp_().sum(-1))
    if layout == "BSND":
        return torch.stack(largest).unsqueeze(1), torch.stack(total).unsqueeze(1)
    return torch.cat(largest).unsqueeze(0), torch.cat(total).unsqueeze(0)


def _target(query: Tensor, key: Tensor, largest: Tensor, total: Tensor, scale: float) -> Tensor:
    """The mean over heads of the attention weights of one sequence; maxima and sums are (heads, rows, 1)."""
    scores = _dot_products(query, key).mul_(scale)
    scores.masked_fill_(_causal_mask(scores), -torch.inf)
    return (scores - largest).exp_().div_(total).sum(0) * (1.0 / query.size(1))


def grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    softmax_max_index: Tensor,
    softmax_sum_index: Tensor,
    scale_value: float,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    actual_seq_qlen: Ends,
    actual_seq_klen: Ends,
    layout: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query_index, key_index and weights, and the loss."""
    if query_rope is not None and key_rope is not None:
        query, key = torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)
    if layout == "TND":
        # Tokens first, as in the other tensors.
        softmax_max, softmax_sum = softmax_max.transpose(0, 1), softmax_sum.transpose(0, 1)
        softmax_max_index, softmax_sum_index = softmax_max_index[0], softmax_sum_index[0]
    else:
        softmax_max, softmax_sum = softmax_max.transpose(1, 2), softmax_sum.transpose(1, 2)
        softmax_max_index, softmax_sum_index = softmax_max_index[:, 0], softmax_sum_index[:, 0]
    gradients = [torch.zeros_like(tensor) for tensor in (query_index, key_index, weights)]
    loss = torch.zeros(1, device=query.device)
    spans = sequence_indices(layout, query_index, actual_seq_qlen), sequence_indices(layout, key_index, actual_seq_klen)
    for q_slice, k_slice in zip(*spans, strict=True):
        moments = [tensor[q_slice].transpose(0, 1) for tensor in (softmax_max, softmax_sum)]
        attention = _target(query[q_slice], key[k_slice], moments[0], moments[1], scale_value)
        scores, seen = _scores(query_index[q_slice], key_index[k_slice], weights[q_slice])
        predicted = (scores - softmax_max_index[q_slice].unsqueeze(-1)).exp_() / softmax_sum_index[q_slice].unsqueeze(
            -1
        )
        loss += (attention * (attention.clamp_min(EPSILON).log() - predicted.clamp_min(EPSILON).log())).sum()
        grad_scores = predicted - attention
        gradients[2][q_slice] = (grad_scores * seen).sum(-1).t().to(weights.dtype)
        grad_products = (
            (grad_scores * weights[q_slice].t().unsqueeze(-1).float() * (seen > 0)).to(query_index.dtype).float()
        )
        gradients[0][q_slice] = (grad_products @ key_index[k_slice][:, 0].float()).transpose(0, 1).to(query_index.dtype)
        sums = (grad_products.transpose(-2, -1) @ query_index[q_slice].transpose(0, 1).float()).sum(0)
        gradients[1][k_slice] = sums.unsqueeze(1).to(key_index.dtype)
    return gradients[0], gradients[1], gradients[2], loss
