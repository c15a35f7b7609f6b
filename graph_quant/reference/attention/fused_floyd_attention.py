"""npu_fused_floyd_attention: attention over the paths from i to k through every j (triangle attention over pairs).

``softmax over j of scale * (q_ik @ k_ij + q_ik @ k_jk)``, times ``v_ij + v_jk``, and its gradient, row i by row i.
Float32; weights and the gradients of scores are rounded to query's dtype before their matmuls. A row that the mask
hides completely is refused: its result is undocumented.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_fused_floyd_attention"
TIMES = 8


def _check_mask(mask: Tensor | None) -> None:
    if mask is not None and bool(mask.bool().all(-1).any()):
        raise Refusal(f"{OP}: atten_mask must leave one of each row, got a row that is hidden altogether")


def _scores(query: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Scores (batch, heads, k, j) from (batch, heads, k, c), (batch, heads, j, c) and (batch, heads, j, k, c)."""
    return query @ near.mT + torch.einsum("bhkc,bhjkc->bhkj", query, far)


def _rows(count: int, mask: Tensor | None) -> Iterator[tuple[int, Tensor | None]]:
    for row in range(count):
        yield row, None if mask is None else mask[:, :, row].bool()


def _mask_scores(scores: Tensor, hidden: Tensor | None) -> Tensor:
    return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)


def floyd_attention(
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    atten_mask: Tensor | None,
    scale_value: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(softmax_max, softmax_sum, attention_out)``."""
    _check_mask(atten_mask)
    out = torch.empty_like(query_ik, memory_format=torch.contiguous_format)
    moments = [query_ik.new_empty((*query_ik.shape[:-1], TIMES), dtype=torch.float32) for _ in range(2)]
    far_keys, far_values = key_jk.float(), value_jk.float()
    for row, hidden in _rows(query_ik.size(2), atten_mask):
        scores = _scores(query_ik[:, :, row].float(), key_ij[:, :, row].float(), far_keys) * scale_value
        scores = _mask_scores(scores, hidden)
        largest = scores.amax(-1, keepdim=True)
        weights = (scores - largest).exp()
        total = weights.sum(-1, keepdim=True)
        weights = (weights / total).to(query_ik.dtype).float()
        result = weights @ value_ij[:, :, row].float() + torch.einsum("bhkj,bhjkc->bhkc", weights, far_values)
        out[:, :, row] = result.to(out.dtype)
        moments[0][:, :, row], moments[1][:, :, row] = largest, total
    return moments[0], moments[1], out


def floyd_attention_backward(
    grad_output: Tensor,
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    atten_mask: Tensor | None,
    scale_value: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query_ik, key_ij, value_ij, key_jk and value_jk."""
    _check_mask(atten_mask)
    dtype = query_ik.dtype
    near = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (query_ik, key_ij, value_ij)]
    far = [torch.zeros(tensor.shape, dtype=torch.float32, device=tensor.device) for tensor in (key_jk, value_jk)]
    far_keys, far_values = key_jk.float(), value_jk.float()
    for row, hidden in _rows(query_ik.size(2), atten_mask):
        query, key, value, upstream, out = (
            tensor[:, :, row].float() for tensor in (query_ik, key_ij, value_ij, grad_output, attention_out)
        )
        scores = _mask_scores(_scores(query, key, far_keys) * scale_value, hidden)
        weights = (scores - softmax_max[:, :, row, :, :1]).exp() / softmax_sum[:, :, row, :, :1]
        delta = (upstream * out).sum(-1, keepdim=True)
        grad_scores = weights * (_scores(upstream, value, far_values) - delta) * scale_value
        grad_scores, weights = grad_scores.to(dtype).float(), weights.to(dtype).float()
        near[0][:, :, row] = (grad_scores @ key + torch.einsum("bhkj,bhjkc->bhkc", grad_scores, far_keys)).to(dtype)
        near[1][:, :, row] = (grad_scores.mT @ query).to(dtype)
        near[2][:, :, row] = (weights.mT @ upstream).to(dtype)
        far[0] += torch.einsum("bhkj,bhkc->bhjkc", grad_scores, query)
        far[1] += torch.einsum("bhkj,bhkc->bhjkc", weights, upstream)
    return near[0], near[1], near[2], far[0].to(dtype), far[1].to(dtype)
