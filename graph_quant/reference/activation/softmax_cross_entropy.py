"""npu_softmax_cross_entropy_with_logits and its gradient, in float32.

The gradient of the logits is the softmax minus the labels, rounded, then multiplied by the gradient of the loss: it is
the derivative if the labels of a row add up to one.
"""

from __future__ import annotations

from torch import Tensor


def loss(input: Tensor, labels: Tensor) -> Tensor:  # noqa: A002
    """The negative sum of labels times log-probabilities of each row."""
    return -(labels.float() * input.float().log_softmax(1)).sum(1).to(input.dtype)


def gradient(grad: Tensor, input: Tensor, labels: Tensor) -> Tensor:  # noqa: A002
    """The gradient of input."""
    difference = (input.float().softmax(1) - labels.float()).to(input.dtype)
    return difference * grad[:, None]
