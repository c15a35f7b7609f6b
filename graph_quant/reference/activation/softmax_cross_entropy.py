"""npu_softmax_cross_entropy_with_logits and its gradient, in float32.

The gradient of the logits is the softmax less the labels, rounded, and then multiplied by that of the loss: it is the
derivative where a row's labels add up to one.
"""

from __future__ import annotations

from torch import Tensor


def loss(input: Tensor, labels: Tensor) -> Tensor:  # noqa: A002
    """Of each row the sum of the labels times minus the logarithms of the probabilities."""
    return -(labels.float() * input.float().log_softmax(1)).sum(1).to(input.dtype)


def gradient(grad: Tensor, input: Tensor, labels: Tensor) -> Tensor:  # noqa: A002
    """The gradient of input."""
    back = (input.float().softmax(1) - labels.float()).to(input.dtype)
    return back * grad[:, None]
