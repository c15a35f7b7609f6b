"""npu_attn_softmax_: scores become their softmax in place; npu_attn_softmax_backward_: weights become the gradient.

In float32, rounded at the end; the product with the values is rounded to their dtype between, as a matmul's result is.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attn_softmax(scores: Tensor) -> Tensor:
    """``scores``, over the last dimension. Batch by batch: scores are large, and what is done in place saves room."""
    for part in scores if scores.dim() > 1 else (scores,):
        part.copy_(torch.softmax(part.float(), -1))
    return scores


def attn_softmax_backward(weights: Tensor, grad_output: Tensor, values: Tensor) -> Tensor:
    """``weights * (g - sum(g * weights))``, where g is grad_output times the values."""
    batched = (weights, grad_output, values) if weights.dim() == 3 else (weights[None], grad_output[None], values[None])
    for part, upstream, value in zip(*batched, strict=True):
        gradient = (upstream.float() @ value.float().t()).to(weights.dtype).float()
        weight = part.float()
        gradient = gradient - (gradient * weight).sum(-1, keepdim=True)
        part.copy_(gradient.mul_(weight))
    return weights
