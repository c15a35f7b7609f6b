"""npu_cross_entropy_loss and its gradient: argument rules and results.

input (N, C) is float32, float16 or bfloat16, with at most 200000 rows; target (N,) int64; weight (C,) float32. The
auxiliary loss is not supported. The gradient is supported without label smoothing, and for the mean also without
weight and ignore_index.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.cross_entropy_loss import cross_entropy_loss as compute
from graph_quant.reference.activation.cross_entropy_loss import cross_entropy_loss_backward as compute_gradient
from torch import Tensor

REDUCTIONS = ("mean", "sum", "none")
MOST_ROWS = 200000


def _check(
    rules: Rules, name: str, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: Any
) -> None:
    rules.dtype(name, x, FLOATS)
    rules.rank(name, x, 2)
    rules.not_empty(name, x)
    rules.require(x.size(0) <= MOST_ROWS, lambda: f"{name}.size(0) must be at most {MOST_ROWS}, got {x.size(0)}")
    rules.dtype("target", target, (torch.int64,))
    rules.rank("target", target, 1)
    rules.equal("target.size(0)", target.size(0), f"{name}.size(0)", x.size(0))
    if weight is not None:
        rules.dtype("weight", weight, (torch.float32,))
        rules.rank("weight", weight, 1)
        rules.equal("weight.size(0)", weight.size(0), f"{name}.size(1)", x.size(1))
    rules.one_of("reduction", reduction, REDUCTIONS)
    rules.require(
        ignore_index < x.size(1), lambda: f"ignore_index must be below {name}.size(1), {x.size(1)}, got {ignore_index}"
    )


def _loss_shape(x: Tensor, reduction: str) -> tuple[Any, ...]:
    return (x.size(0),) if reduction == "none" else (1,)


@operator("npu_cross_entropy_loss", reference=compute)
def cross_entropy_loss(
    rules: Rules,
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    lse_square_scale_for_zloss: float,
    return_zloss: bool,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check(rules, "input", input, target, weight, reduction, ignore_index)
    rules.require(0 <= label_smoothing < 1, lambda: f"label_smoothing must lie in [0, 1), got {label_smoothing}")
    _check_auxiliary(rules, lse_square_scale_for_zloss)
    rules.require(not return_zloss, lambda: "return_zloss must be False, for it is reserved, got True")
    nothing = Result((0,), input.dtype)
    loss = Result(_loss_shape(input, reduction), input.dtype)
    return Plan((loss, Result(tuple(input.shape), input.dtype), nothing, nothing))


def _check_auxiliary(rules: Rules, scale: float) -> None:
    rules.require(scale == 0, lambda: f"lse_square_scale_for_zloss must be 0, for it is reserved, got {scale}")


@operator("npu_cross_entropy_loss_backward", reference=compute_gradient)
def cross_entropy_loss_backward(
    rules: Rules,
    grad_loss: Tensor,
    log_prob: Tensor,
    target: Tensor,
    weight: Tensor | None,
    grad_zloss: Tensor | None,  # noqa: ARG001 - reserved
    lse_for_zloss: Tensor | None,  # noqa: ARG001 - reserved
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    lse_square_scale_for_zloss: float,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check(rules, "log_prob", log_prob, target, weight, reduction, ignore_index)
    rules.dtype("grad_loss", grad_loss, (log_prob.dtype,), why=", the dtype of log_prob")
    rules.rank("grad_loss", grad_loss, 1)
    rules.equal("grad_loss.size(0)", grad_loss.size(0), "the loss's size", _loss_shape(log_prob, reduction)[0])
    _check_auxiliary(rules, lse_square_scale_for_zloss)
    rules.require(label_smoothing == 0, lambda: f"label_smoothing must be 0 for a gradient, got {label_smoothing}")
    if reduction == "mean":
        if weight is not None:
            rules.refuse("weight must be None for the gradient of a mean, got a tensor")
        rules.require(
            ignore_index < 0, lambda: f"ignore_index must be negative for the gradient of a mean, got {ignore_index}"
        )
    return Plan((Result(tuple(log_prob.shape), log_prob.dtype),))
