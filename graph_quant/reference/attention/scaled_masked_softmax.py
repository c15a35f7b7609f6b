"""npu_scaled_masked_softmax: ``softmax(x * scale)`` with -10000 where mask is set, and its gradient, in float32.

A completely masked row gets equal weights, because all of its scores are equal.
"""

from __future__ import annotations

from torch import Tensor

HIDDEN = -10000.0


def scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Softmax over the last dimension, in x's dtype."""
    scores = (x.float() * float(scale)).masked_fill(mask, HIDDEN)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)).to(x.dtype)


def scaled_masked_softmax_backward(y_grad: Tensor, y: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of x, 0 where it is masked."""
    weights = y.float()
    products = y_grad.float() * weights
    gradient = products - weights * products.sum(-1, keepdim=True)
    return (gradient * float(scale)).masked_fill(mask, 0.0).to(y_grad.dtype)
