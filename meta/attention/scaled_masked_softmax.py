"""npu_scaled_masked_softmax and its gradient: rules and results.

x is float32, float16 or bfloat16 of four dimensions, the last two from 32 to 4096 and multiples of 32; mask is bool
and can be broadcast to x. fixed_triu_mask is reserved.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention.scaled_masked_softmax import scaled_masked_softmax as compute
from graph_quant.reference.attention.scaled_masked_softmax import scaled_masked_softmax_backward as compute_gradient
from torch import Tensor

LEAST, MOST, STEP = 32, 4096, 32


def _check(rules: Rules, name: str, x: Tensor, mask: Tensor, fixed_triu_mask: bool) -> None:
    rules.dtype(name, x, FLOATS)
    rules.rank(name, x, 4)
    for dim in (2, 3):
        _check_side(rules, f"{name}.size({dim})", x.size(dim))
    rules.dtype("mask", mask, (torch.bool,))
    rules.rank("mask", mask, 1, 4)
    for dim in range(-mask.dim(), 0):
        rules.one_or(f"mask.size({dim})", mask.size(dim), f"{name}.size({dim})", x.size(dim))
    rules.require(not fixed_triu_mask, lambda: "fixed_triu_mask must be False, for it is reserved, got True")


def _check_side(rules: Rules, name: str, size: int) -> None:
    rules.at_least(name, size, LEAST)
    rules.require(size <= MOST, lambda: f"{name} must be at most {MOST}, got {size}")
    rules.require(size % STEP == 0, lambda: f"{name} must be a multiple of {STEP}, got {size}")


@operator("npu_scaled_masked_softmax", reference=compute)
def scaled_masked_softmax(rules: Rules, x: Tensor, mask: Tensor, scale: float, fixed_triu_mask: bool) -> Plan:  # noqa: ARG001
    """Checks a call against the documented rules, and returns its plan."""
    _check(rules, "x", x, mask, fixed_triu_mask)
    return Plan((Result(tuple(x.shape), x.dtype),))


@operator("npu_scaled_masked_softmax_backward", reference=compute_gradient)
def scaled_masked_softmax_backward(
    rules: Rules,
    y_grad: Tensor,
    y: Tensor,
    mask: Tensor,
    scale: float,  # noqa: ARG001
    fixed_triu_mask: bool,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    _check(rules, "y_grad", y_grad, mask, fixed_triu_mask)
    rules.dtype("y", y, (y_grad.dtype,), why=", the dtype of y_grad")
    rules.rank("y", y, 4)
    for dim in range(4):
        rules.equal(f"y.size({dim})", y.size(dim), f"y_grad.size({dim})", y_grad.size(dim))
    return Plan((Result(tuple(y_grad.shape), y_grad.dtype),))
