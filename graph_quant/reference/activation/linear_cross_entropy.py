"""Vocabulary-parallel cross-entropy loss in three steps, as the kernels of A2 and A3 compute it.

Logits are rounded to the dtype of input, whether they are returned or not; everything else is float32. A rank's tokens
end below vocab_end_index, although the document includes it. Row r of target_mask is bit r % 8 of byte r // 8 and is 1
if the target belongs to another rank; bits after the last row are as for a target of 0.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.reference.half_products import multiply
from graph_quant.refusals import Refusal
from torch import Tensor
from torch.nn import functional


@value_check
def _check_tokens(masked_target: Tensor, is_foreign: Tensor, count: int) -> Tensor:
    """``masked_target``; refuses values that are no token of this rank."""
    wrong = ((masked_target < 0) | (masked_target >= count)) & ~is_foreign
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise Refusal(
            "npu_fused_linear_cross_entropy_loss_with_max_sum_backward: "
            f"masked_target[{row}] must lie in [0, {count}), got {int(masked_target[row])}"
        )
    return masked_target


def _find_foreign(target: Tensor, start: int, end: int) -> Tensor:
    """Whether a target belongs to another rank; kernels compare in float32."""
    tokens = target.float()
    return (tokens < float(start)) | (tokens >= float(end))


def linear_online_max_sum(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    target: Tensor,
    vocab_start_index: int,
    vocab_end_index: int,
    return_logits: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """``(logits_max, sum_exp_logits, predicted_logits, target_mask, masked_target, logits)``."""
    logits = multiply(input, weight.t(), dtype=input.dtype)
    largest = logits.float().amax(1, keepdim=True)
    shifted = logits.float() - largest
    is_foreign = _find_foreign(target, vocab_start_index, vocab_end_index)
    masked = torch.where(is_foreign, 0, (target.float() - float(vocab_start_index)).to(target.dtype))
    predicted = shifted.gather(1, masked[:, None].long())[:, 0].masked_fill(is_foreign, 0.0)
    padded = functional.pad(target, (0, -target.size(0) % 8))
    bits = _find_foreign(padded, vocab_start_index, vocab_end_index).view(-1, 8).to(torch.uint8)
    shifts = torch.arange(8, dtype=torch.uint8, device=bits.device)
    mask = (bits << shifts).sum(1, dtype=torch.uint8)
    sums = shifted.exp().sum(1)
    return largest[:, 0], sums, predicted, mask, masked, logits if return_logits else None


def cross_entropy_loss_with_max_sum(
    logits_max: Tensor, sum_exp_logits: Tensor, predicted_logits: Tensor, vocab_parallel_logits: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """``(loss, softmax)``; the softmax multiplies by the reciprocal of the sum."""
    loss = sum_exp_logits.log() - predicted_logits
    if vocab_parallel_logits is None:
        return loss, None
    exponents = (vocab_parallel_logits.float() - logits_max[:, None]).exp()
    return loss, exponents * (1.0 / sum_exp_logits)[:, None]


def linear_cross_entropy_loss_with_max_sum_backward(
    grad: Tensor,
    input: Tensor,  # noqa: A002
    weight: Tensor,
    target_mask: Tensor,
    masked_target: Tensor,
    logits_max: Tensor | None,
    sum_exp_logits: Tensor | None,
    softmax: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """``(input_grad, weight_grad)``: the gradient of the logits is rounded to input's dtype before both products."""
    rows = torch.arange(grad.size(0), device=grad.device)
    is_foreign = ((target_mask[rows // 8] >> (rows % 8).to(torch.uint8)) & 1).bool()
    chosen = _check_tokens(masked_target, is_foreign, weight.size(0)).long().masked_fill(is_foreign, 0)
    if softmax is None:
        assert logits_max is not None
        assert sum_exp_logits is not None
        logits = multiply(input, weight.t())
        softmax = (logits - logits_max[:, None]).exp() / sum_exp_logits[:, None]
    one_hot = (~is_foreign).float()[:, None]
    of_logits = softmax.scatter_add(1, chosen[:, None], -one_hot) * grad[:, None]
    rounded = of_logits.to(input.dtype)
    return multiply(rounded, weight, dtype=input.dtype), multiply(rounded.t(), input, dtype=input.dtype)
