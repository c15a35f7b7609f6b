"""npu_attn_softmax_ and npu_attn_softmax_backward_, which write into their argument: rules.

Scores are float32, float16 or bfloat16 of one to eight dimensions. For the gradient they hold weights of three, as
grad_output (batch, rows, channels) and values (batch, columns, channels) do, in one dtype.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention import attn_softmax as reference
from torch import Tensor

MOST = 8


@operator("npu_attn_softmax_", reference=reference.attn_softmax)
def attn_softmax(rules: Rules, scores: Tensor) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    rules.dtype("input", scores, FLOATS)
    rules.rank("input", scores, 1, MOST)
    return Plan(("scores",))


@operator("npu_attn_softmax_backward_", reference=reference.attn_softmax_backward)
def attn_softmax_backward(rules: Rules, weights: Tensor, grad_output: Tensor, values: Tensor) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    rules.dtype("input", weights, FLOATS)
    rules.rank("input", weights, 2, 3)
    for name, tensor in (("grad_output", grad_output), ("values", values)):
        rules.dtype(name, tensor, (weights.dtype,), ", the dtype of input")
        rules.rank(name, tensor, weights.dim(), why=", as input has")
        if weights.dim() == 3:
            rules.equal(f"{name}.size(0)", tensor.size(0), "input.size(0)", weights.size(0))
    rules.equal("grad_output.size(-2)", grad_output.size(-2), "input.size(-2)", weights.size(-2))
    rules.equal("values.size(-2)", values.size(-2), "input.size(-1)", weights.size(-1))
    rules.equal("values.size(-1)", values.size(-1), "grad_output.size(-1)", grad_output.size(-1))
    return Plan(("weights",))
