"""npu_nsa_select_attention: attention of each token over the key blocks selected for it, and its gradient.

Float32, except that weights are rounded to the dtype of the values before the second matmul. With a mask the attention
is causal. The gradient recomputes weights from the maxima and sums of the forward call; weights and the gradients of
scores are rounded to the dtype before their matmuls, because the matrix unit takes no other dtype. A device accumulates
the gradients of keys in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_nsa_select_attention"
TIMES = 8


@value_check
def check_blocks(chosen: Tensor, count: int) -> Tensor:
    """``chosen``, refused where a block lies outside of its sequence."""
    wrong = (chosen < 0) | (chosen >= count)
    if bool(wrong.any()):
        raise Refusal(
            f"{OP}: topk_indices must lie in [0, {count}), the blocks of a sequence, got {int(chosen[wrong][0])}"
        )
    return chosen


@dataclass(frozen=True)
class Token:
    """One token: its index, the selected keys per key head, and which of them are masked."""

    index: int
    chosen: Tensor
    hidden: Tensor | None


def _tokens(
    topk_indices: Tensor,
    size: int,
    is_masked: bool,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
) -> Iterator[Token]:
    within = torch.arange(size, device=topk_indices.device)
    first, first_key = 0, 0
    for last, last_key in zip(actual_seq_qlen, actual_seq_kvlen, strict=True):
        blocks = check_blocks(topk_indices[first:last].long(), (last_key - first_key) // size)
        for index in range(first, last):
            keys = (blocks[index - first].unsqueeze(-1) * size + within).flatten(1)
            yield Token(index, keys + first_key, keys > index - first if is_masked else None)
        first, first_key = last, last_key


def _group_heads(rows: Tensor, heads: int) -> Tensor:
    """A token's (heads, channels) as (key heads, heads per key head, channels)."""
    return rows.float().reshape(heads, -1, rows.size(-1))


def _gather_selected(cache: Tensor, token: Token) -> Tensor:
    """The selected rows of a cache, (key heads, selected keys, channels)."""
    heads = torch.arange(cache.size(1), device=cache.device).unsqueeze(1)
    return cache[token.chosen, heads].float()


def _scores(query: Tensor, keys: Tensor, token: Token, scale: float) -> Tensor:
    scores = query @ keys.transpose(-2, -1)
    if token.hidden is not None:
        scores = scores.masked_fill(token.hidden.unsqueeze(1), torch.finfo(torch.float32).min)
    return scores * scale


def select_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    select_block_size: int,
    atten_mask: Tensor | None,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """``(attention_out, softmax_max, softmax_sum)``."""
    heads = key.size(1)
    out = query.new_empty((*query.shape[:2], value.size(2)))
    largest, total = (query.new_empty((*query.shape[:2], TIMES), dtype=torch.float32) for _ in range(2))
    selection = topk_indices, select_block_size, atten_mask is not None, actual_seq_qlen, actual_seq_kvlen
    for token in _tokens(*selection):
        scores = _scores(_group_heads(query[token.index], heads), _gather_selected(key, token), token, scale_value)
        most = scores.amax(-1, keepdim=True)
        weights = (scores - most).exp()
        whole = weights.sum(-1, keepdim=True)
        weights = (weights / whole).to(value.dtype).float()
        out[token.index] = (weights @ _gather_selected(value, token)).reshape(query.size(1), -1).to(query.dtype)
        largest[token.index] = most.reshape(-1, 1)
        total[token.index] = whole.reshape(-1, 1)
    return out, largest, total


def select_attention_grad(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    select_block_size: int,
    atten_mask: Tensor | None,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value."""
    heads, dtype = key.size(1), query.dtype
    grad_query = torch.empty_like(query)
    grad_key, grad_value = (
        torch.zeros(tensor.shape, dtype=torch.float32, device=tensor.device) for tensor in (key, value)
    )
    columns = torch.arange(heads, device=key.device).unsqueeze(1)
    selection = topk_indices, select_block_size, atten_mask is not None, actual_seq_qlen, actual_seq_kvlen
    for token in _tokens(*selection):
        index, keys = token.index, _gather_selected(key, token)
        rows = _group_heads(query[index], heads)
        moments = [tensor[index, :, 0].reshape(heads, -1, 1) for tensor in (softmax_max, softmax_sum)]
        weights = (_scores(rows, keys, token, scale_value) - moments[0]).exp() / moments[1]
        upstream = _group_heads(grad[index], heads)
        delta = (upstream * _group_heads(attention_out[index], heads)).sum(-1, keepdim=True)
        grad_scores = (
            (weights * (upstream @ _gather_selected(value, token).transpose(-2, -1) - delta)).to(dtype).float()
        )
        grad_query[index] = (grad_scores @ keys * scale_value).reshape(query.shape[1:]).to(dtype)
        key_indices = token.chosen, columns.expand_as(token.chosen)
        grad_key.index_put_(key_indices, grad_scores.transpose(-2, -1) @ rows * scale_value, accumulate=True)
        grad_value.index_put_(key_indices, weights.to(dtype).float().transpose(-2, -1) @ upstream, accumulate=True)
    return grad_query, grad_key.to(dtype), grad_value.to(dtype)
