"""The gradients of npu_gelu, npu_fast_gelu and npu_silu, which torch_npu's autograd calls.

The gradient of npu_gelu broadcasts its two tensors, of at most eight dimensions, and promotes their dtypes, as its
document says; the others need the same shape and dtype. All may be empty.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.activation.gelu import APPROXIMATIONS
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size, guard_or_false
from graph_quant.reference.activation import gelu_grad as reference
from torch import Tensor


@operator("npu_gelu_backward", reference=reference.gelu_backward)
def gelu_backward(rules: Rules, grad_output: Tensor, x: Tensor, approximate: str) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.require(approximate in APPROXIMATIONS, lambda: f"approximate must be 'none' or 'tanh', got {approximate!r}")
    for name, tensor in (("grad_output", grad_output), ("input", x)):
        rules.dtype(name, tensor, FLOATS)
        rules.rank(name, tensor, 0, 8)
    return Plan((Result(_broadcast(rules, grad_output, x), torch.promote_types(grad_output.dtype, x.dtype)),))


def _broadcast(rules: Rules, grad: Tensor, x: Tensor) -> tuple[Size, ...]:
    longer, shorter = (grad, x) if grad.dim() >= x.dim() else (x, grad)
    shape = list(longer.shape)
    for dim in range(-shorter.dim(), 0):
        grad_size, size = grad.size(dim), x.size(dim)
        if guard_or_false(grad_size == 1):
            shape[dim] = size
        elif guard_or_false(size == 1):
            shape[dim] = grad_size
        else:
            rules.equal(f"grad_output.size({dim})", grad_size, f"input.size({dim})", size)
    return tuple(shape)


@operator("npu_fast_gelu_backward", reference=reference.fast_gelu_backward, node="FastGeluGrad", chips=A2_A3_950)
def fast_gelu_backward(rules: Rules, dy: Tensor, x: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 0, 8)
    rules.like("grad", dy, "input", x)
    return Plan((Result(tuple(x.shape), x.dtype),))


@operator("npu_silu_backward", reference=reference.silu_backward, node="SwishGrad")
def silu_backward(rules: Rules, grad: Tensor, x: Tensor, y: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("grad_output", grad, FLOATS)
    rules.rank("grad_output", grad, 0, 8)
    rules.like("x0", x, "grad_output", grad)
    rules.like("x1", y, "grad_output", grad)
    return Plan((Result(tuple(grad.shape), grad.dtype),))
