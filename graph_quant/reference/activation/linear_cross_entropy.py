"""The loss of a vocabulary that is shared out over ranks, in three steps, as the kernels of A2 and A3 take them.

Logits are rounded to the dtype of input, whether they are asked for or not, and all that follows is float32. A rank's
tokens are those below vocab_end_index, though the document counts that one in. Row r of target_mask is bit r % 8 of
byte r // 8, 1 where its target is another rank's; bits after the last row are as for a target of 0.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor
from torch.nn import functional


@value_check
def _tokens(masked_target: Tensor, elsewhere: Tensor, count: int) -> Tensor:
    """``masked_target``, refused where it is no token of this rank's."""
    wrong = ((masked_target < 0) | (masked_target >= count)) & ~elsewhere
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise Refusal(
            "npu_fused_linear_cross_entropy_loss_with_max_sum_backward: "
            f"masked_target[{row}] must lie in [0, {count}), got {int(masked_target[row])}"
        )
    return masked_target


def _elsewhere(target: Tensor, start: int, end: int) -> Tensor:
    """Which targets are other ranks'; kernels compare them as float32."""
    places = target.float()
    return (places < float(start)) | (places >= float(end))


def linear_online_max_sum(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    target: Tensor,
    vocab_start_index: int,
    vocab_end_index: int,
    return_logits: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """``(logits_max, sum_exp_logits, predicted_logits, target_mask, masked_target, logits)``."""
    logits = (input.float() @ weight.float().t()).to(input.dtype)
    largest = logits.float().amax(1, keepdim=True)
    shifted = logits.float() - largest
    elsewhere = _elsewhere(target, vocab_start_index, vocab_end_index)
    masked = torch.where(elsewhere, 0, (target.float() - float(vocab_start_index)).to(target.dtype))
    predicted = shifted.gather(1, masked[:, None].long())[:, 0].masked_fill(elsewhere, 0.0)
    padded = functional.pad(target, (0, -target.size(0) % 8))
    bits = _elsewhere(padded, vocab_start_index, vocab_end_index).view(-1, 8).to(torch.uint8)
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    mask = (bits << places).sum(1, dtype=torch.uint8)
    sums = shifted.exp().sum(1)
    return largest[:, 0], sums, predicted, mask, masked, logits if return_logits else None


def cross_entropy_loss_with_max_sum(
    logits_max: Tensor, sum_exp_logits: Tensor, predicted_logits: Tensor, vocab_parallel_logits: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """``(loss, softmax)``; the softmax is multiplied by the reciprocal of the sum."""
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
    elsewhere = ((target_mask[rows // 8] >> (rows % 8).to(torch.uint8)) & 1).bool()
    chosen = _tokens(masked_target, elsewhere, weight.size(0)).long().masked_fill(elsewhere, 0)
    if softmax is None:
        assert logits_max is not None
        assert sum_exp_logits is not None
        logits = input.float() @ weight.float().t()
        softmax = (logits - logits_max[:, None]).exp() / sum_exp_logits[:, None]
    less = (~elsewhere).float()[:, None]
    of_logits = softmax.scatter_add(1, chosen[:, None], -less) * grad[:, None]
    rounded = of_logits.to(input.dtype).float()
    return (rounded @ weight.float()).to(input.dtype), (rounded.t() @ input.float()).to(input.dtype)
