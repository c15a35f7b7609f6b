"""npu_cross_entropy_loss: log_softmax and the loss of its targets at once, and the gradient, in float32.

A row's loss is minus the logarithm of its target's probability, times the target's weight, and 0 for the label that
is left out. With label smoothing a share of it is the sum over all labels. A mean is over the weights of the targets.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def labels(op: str, target: Tensor, classes: int) -> Tensor:
    """``target``, refused where it is no label: one that is left out is a label as well."""
    wrong = (target < 0) | (target >= classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise Refusal(f"{op}: target[{row}] must lie in [0, {classes}), got {int(target[row])}")
    return target


def _weights(target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    """The weight of each row's target, 0 where the row is left out."""
    chosen = torch.ones_like(target, dtype=torch.float32) if weight is None else weight.index_select(0, target)
    return chosen if ignore_index < 0 else chosen * (target != ignore_index)


def cross_entropy_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(loss, log_prob, zloss, lse_for_zloss)``, the last two empty."""
    target = labels("npu_cross_entropy_loss", target, input.size(1))
    shifted = input.float() - input.float().amax(1, keepdim=True)
    log_prob = shifted - shifted.exp().sum(1, keepdim=True).log()
    weights = _weights(target, weight, ignore_index)
    loss = -log_prob.gather(1, target[:, None])[:, 0] * weights
    total = weights.sum()
    if label_smoothing:
        smooth = -(log_prob if weight is None else log_prob * weight).sum(1)
        kept = smooth if ignore_index < 0 else smooth * (target != ignore_index)
        loss = (1 - label_smoothing) * loss + kept * (label_smoothing / input.size(1))
    if reduction != "none":
        loss = loss.sum(0, keepdim=True)
    if reduction == "mean":
        loss = loss / total
    nothing = input.new_empty(0)
    return loss.to(input.dtype), log_prob.to(input.dtype), nothing, nothing.clone()


def cross_entropy_loss_backward(
    grad_loss: Tensor, log_prob: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
) -> Tensor:
    """The gradient of the input: probabilities less one at the target, times its weight."""
    target = labels("npu_cross_entropy_loss_backward", target, log_prob.size(1))
    rows = grad_loss.float() * _weights(target, weight, ignore_index)
    if reduction == "mean":
        rows = rows / log_prob.size(0)
    gradient = log_prob.float().exp() * rows[:, None]
    return gradient.scatter_add(1, target[:, None], -rows[:, None]).to(log_prob.dtype)
