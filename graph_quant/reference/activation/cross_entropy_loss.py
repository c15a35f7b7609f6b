"""npu_cross_entropy_loss and its gradient: log_softmax and negative log-likelihood in float32.

The loss of a row is the negative log-probability of its target times the weight of the target, and 0 for ignore_index.
Label smoothing mixes in the sum over all classes. The mean divides by the sum of the targets' weights.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def check_targets(op: str, target: Tensor, classes: int) -> Tensor:
    """``target``; refuses values that are no class. ignore_index has to be a class too."""
    wrong = (target < 0) | (target >= classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise Refusal(f"{op}: target[{row}] must lie in [0, {classes}), got {int(target[row])}")
    return target


def _weights(target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    """The weight of every row's target, 0 for ignored rows."""
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
    target = check_targets("npu_cross_entropy_loss", target, input.size(1))
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
    """The gradient of the input: probabilities minus the one-hot target, times its weight."""
    target = check_targets("npu_cross_entropy_loss_backward", target, log_prob.size(1))
    rows = grad_loss.float() * _weights(target, weight, ignore_index)
    if reduction == "mean":
        rows = rows / log_prob.size(0)
    gradient = log_prob.float().exp() * rows[:, None]
    return gradient.scatter_add(1, target[:, None], -rows[:, None]).to(log_prob.dtype)
