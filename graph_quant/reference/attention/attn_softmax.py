"""npu_attn_softmax_: scores become their softmax in place; npu_attn_softmax_backward_: weights become the gradient.

In float32, rounded at the end; the product with the values is rounded to their dtype between, as a matmul's result is.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attn_softmax(scores: Tensor) -> Tensor:
    """``scores``, over the last dimension."""
    return scores.copy_(torch.softmax(scores.float(), -1))


def attn_softmax_backward(weights: Tensor, grad_output: Tensor, values: Tensor) -> Tensor:
    """``weights * (g - sum(g * weights))``, where g is grad_output times the values."""
    gradient = (grad_output.float() @ values.float().transpose(-2, -1)).to(weights.dtype).float()
    kept = weights.float()
    gradient = gradient - (gradient * kept).sum(-1, keepdim=True)
    return weights.copy_(gradient.mul_(kept))
