"""The gradient of the logits of npu_moe_gating_top_k, from the scores that it returns with ``out_flag``.

With w the weights of the chosen experts, s their scores and f ``routed_scaling_factor``, w is ``f * s`` or, with a
sigmoid or ``renorm`` 1, ``f * s / (sum(s) + eps)``. All is computed in float32 and rounded once to the dtype of the
gradient; the kernel is not public, so that its order of summation is unknown.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from graph_quant.reference.moe.gating_top_k import SIGMOID
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_moe_gating_top_k_backward"


@value_check
def checked_scores(x_norm: Tensor) -> Tensor:
    """``x_norm``, refused where all scores of a token are 0, as they are without ``out_flag``."""
    unwritten = (x_norm == 0).all(1).nonzero()
    if len(unwritten):
        token = int(unwritten[0])
        raise Refusal(f"{_OP}: x_norm[{token}] must hold the scores, which out_flag=True gives, got zeros")
    return x_norm


@value_check
def checked_experts(expert_idx: Tensor, experts: int) -> Tensor:
    """``expert_idx``, refused where a value is not an expert."""
    check_range(_OP, "expertIdx", expert_idx, 0, experts)
    return expert_idx


def gating_top_k_backward(x_norm: Tensor, expert_idx: Tensor, **others: Any) -> Tensor:
    """The gradient of the logits."""
    experts = checked_experts(expert_idx, x_norm.size(1))
    return of_logits(x_norm=checked_scores(x_norm), expert_idx=experts, **others)


def of_logits(
    x_norm: Tensor,
    grad_y: Tensor,
    expert_idx: Tensor,
    renorm: int,
    norm_type: int,
    routed_scaling_factor: float,
    eps: float,
) -> Tensor:
    """``gating_top_k_backward`` of checked scores and experts."""
    grad, chosen = grad_y.contiguous().float() * routed_scaling_factor, expert_idx.long()
    if norm_type == SIGMOID or renorm:
        weights = x_norm.gather(1, chosen)
        total = weights.sum(1, keepdim=True) + eps
        grad = (grad - (grad * weights).sum(1, keepdim=True) / total) / total
    # A table may name an expert twice.
    of_scores = torch.zeros_like(x_norm).scatter_add(1, chosen, grad)
    if norm_type == SIGMOID:
        return (of_scores * x_norm * (1.0 - x_norm)).to(grad_y.dtype)
    return (x_norm * (of_scores - (of_scores * x_norm).sum(1, keepdim=True))).to(grad_y.dtype)
