"""npu_attn_softmax_: softmax of scores in place; npu_attn_softmax_backward_: gradient of the scores in place.

Float32, rounded at the end; ``grad_output @ values.T`` is rounded to its dtype first, as a matmul's result is.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attn_softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension, in place. Batch by batch, because a float32 copy of all scores is large."""
    for part in scores if scores.dim() > 1 else (scores,):
        part.copy_(torch.softmax(part.float(), -1))
    return scores


def attn_softmax_backward(weights: Tensor, grad_output: Tensor, values: Tensor) -> Tensor:
    """``weights * (g - sum(g * weights))`` with ``g = grad_output @ values.T``."""
    batched = (weights, grad_output, values) if weights.dim() == 3 else (weights[None], grad_output[None], values[None])
    for part, upstream, value in zip(*batched, strict=True):
        gradient = (upstream.float() @ value.float().t()).to(weights.dtype).float()
        weight = part.float()
        gradient = gradient - (gradient * weight).sum(-1, keepdim=True)
        part.copy_(gradient.mul_(weight))
    return weights
