"""npu_softmax_cross_entropy_with_logits and its gradient: argument rules and results.

input and labels (N, C) are of one dtype, float32, float16 or bfloat16; the loss is (N,).
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation import softmax_cross_entropy as reference
from torch import Tensor


def _check(rules: Rules, x: Tensor, labels: Tensor) -> None:
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 2)
    rules.at_least("input.size(1)", x.size(1), 1)
    rules.dtype("labels", labels, (x.dtype,), why=", the dtype of input")
    rules.rank("labels", labels, 2)
    for dim in (0, 1):
        rules.equal(f"labels.size({dim})", labels.size(dim), f"input.size({dim})", x.size(dim))


@operator("npu_softmax_cross_entropy_with_logits", reference=reference.loss)
def loss(rules: Rules, input: Tensor, labels: Tensor) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    _check(rules, input, labels)
    return Plan((Result((input.size(0),), input.dtype),))


@operator("npu_softmax_cross_entropy_with_logits_backward", reference=reference.gradient)
def gradient(rules: Rules, grad: Tensor, input: Tensor, labels: Tensor) -> Plan:  # noqa: A002
    """Check a call as autograd makes it and return its plan."""
    _check(rules, input, labels)
    rules.dtype("grad", grad, (input.dtype,), why=", the dtype of input")
    rules.rank("grad", grad, 1)
    rules.equal("grad.size(0)", grad.size(0), "input.size(0)", input.size(0))
    return Plan((Result(tuple(input.shape), input.dtype),))
