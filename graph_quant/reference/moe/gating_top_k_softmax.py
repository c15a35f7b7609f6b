"""npu_moe_gating_top_k_softmax and its second version: softmax over the experts and top k, in either order.

Of equal values the lower expert comes first. A ``finished`` row gets the number of experts, which is not an expert, for
every index; its weights are still computed. Softmax divides, in float32: ``exp(x - max) / sum``. For float16 the
device's general kernel rounds the softmax before top k, so that equal rounded values are taken in their order; its
kernel for k up to 8 and up to 1024 experts, a multiple of 8, or fewer than 8 experts, rounds after. Ascend 950
always rounds after.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.moe.gating_top_k import best
from torch import Tensor


def _softmax(values: Tensor) -> Tensor:
    powers = (values - values.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def _scores(x: Tensor, k: int) -> Tensor:
    scores = _softmax(x.contiguous().float())
    experts = x.size(-1)
    rounds_last = is_950() or experts < 8 or (experts <= 1024 and experts % 8 == 0 and k <= 8)
    return scores if rounds_last or x.dtype != torch.float16 else scores.to(x.dtype).float()


def _indices(chosen: Tensor, experts: int, finished: Tensor | None) -> Tensor:
    index = chosen.to(torch.int32)
    return index if finished is None else torch.where(finished.unsqueeze(-1), experts, index).to(torch.int32)


@kernel("MoeGatingTopKSoftmax", flops=6, exact=True, chips=A2_A3_950)
def gating_top_k_softmax(x: Tensor, finished: Tensor | None = None, *, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, expert_idx, row_idx)``; row_idx numbers all first choices before the second ones."""
    scores = _scores(x, k)
    chosen = best(scores, k)
    rows = chosen.flatten(0, -2).size(0)
    row_idx = torch.arange(rows * k, dtype=torch.int32, device=x.device).reshape(k, rows).mT.reshape(chosen.shape)
    y = scores.gather(-1, chosen).to(x.dtype)
    return y, _indices(chosen, x.size(-1), finished), row_idx.contiguous()


@kernel("MoeGatingTopKSoftmaxV2", flops=6, exact=True)
def gating_top_k_softmax_v2(
    x: Tensor, finished: Tensor | None = None, *, k: int, renorm: int | None = 0, output_softmax: bool | None = False
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, expert_idx, softmax_result)``; with ``renorm`` the softmax is over the k chosen experts alone."""
    values = x.contiguous().float()
    if renorm:
        chosen = best(values, k)
        y, scores = _softmax(values.gather(-1, chosen)), None
    else:
        scores = _scores(x, k)
        chosen = best(scores, k)
        y = scores.gather(-1, chosen)
    result = scores if scores is not None and output_softmax else values.new_empty(0)
    return y.to(x.dtype), _indices(chosen, x.size(-1), finished), result
