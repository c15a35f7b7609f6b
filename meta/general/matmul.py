"""npu_linear with its gradient, and npu_bmmV2: argument rules and results.

npu_linear takes input (M, K), weight (N, K) and bias (N,) of one float dtype. npu_bmmV2 multiplies batches of float32,
float16 or int32 that broadcast; output_sizes, which only gradients of other operators pass, is not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size, guard_or_false, sym_or
from graph_quant.reference.general import matmul as reference
from torch import Tensor

OPERAND_DTYPES = (torch.float32, torch.float16, torch.int32)


def _check_matrix(rules: Rules, name: str, matrix: Tensor, dtype: torch.dtype) -> None:
    rules.dtype(name, matrix, (dtype,), why=", the dtype of the first")
    rules.rank(name, matrix, 2)


@operator("npu_linear", reference=reference.linear)
def linear(rules: Rules, input: Tensor, weight: Tensor, bias: Tensor | None) -> Plan:  # noqa: A002
    """Check a call against what the device supports and return its plan."""
    rules.dtype("input", input, FLOATS)
    rules.rank("input", input, 2)
    _check_matrix(rules, "weight", weight, input.dtype)
    rules.equal("weight.size(1)", weight.size(1), "input.size(1)", input.size(1))
    if bias is not None:
        rules.dtype("bias", bias, (input.dtype,), why=", the dtype of input")
        rules.rank("bias", bias, 1)
        rules.equal("bias.size(0)", bias.size(0), "weight.size(0)", weight.size(0))
    return Plan((Result((input.size(0), weight.size(0)), input.dtype),))


@operator("npu_linear_backward", reference=reference.linear_backward)
def linear_backward(rules: Rules, grad: Tensor, input: Tensor, weight: Tensor) -> Plan:  # noqa: A002
    """Check a call against what the device supports and return its plan."""
    rules.dtype("grad", grad, FLOATS)
    rules.rank("grad", grad, 2)
    _check_matrix(rules, "input", input, grad.dtype)
    _check_matrix(rules, "weight", weight, grad.dtype)
    rules.equal("input.size(0)", input.size(0), "grad.size(0)", grad.size(0))
    rules.equal("weight.size(0)", weight.size(0), "grad.size(1)", grad.size(1))
    rules.equal("weight.size(1)", weight.size(1), "input.size(1)", input.size(1))
    return Plan((Result(tuple(input.shape), grad.dtype), Result(tuple(weight.shape), grad.dtype)))


@operator("npu_bmmV2", reference=reference.batch_matmul)
def batch_matmul(rules: Rules, input: Tensor, mat2: Tensor, output_sizes: Sequence[int]) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, OPERAND_DTYPES)
    rules.dtype("mat2", mat2, (input.dtype,), why=", the dtype of input")
    rules.rank("input", input, 2, 8)
    rules.rank("mat2", mat2, 2, 8)
    rules.equal("mat2.size(-2)", mat2.size(-2), "input.size(-1)", input.size(-1))
    if output_sizes:
        rules.refuse(f"output_sizes must be empty, for it is known of gradients alone, got {list(output_sizes)}")
    longer = max(input.dim(), mat2.dim())
    batch = [_broadcast_size(rules, input, mat2, dim) for dim in range(-longer, -2)]
    return Plan((Result((*batch, input.size(-2), mat2.size(-1)), input.dtype),))


def _broadcast_size(rules: Rules, left: Tensor, right: Tensor, dim: int) -> Size:
    """The broadcast size of a batch dimension that one or both tensors have."""
    sizes = [operand.size(dim) for operand in (left, right) if operand.dim() >= -dim]
    first, last = sizes[0], sizes[-1]
    rules.require(
        sym_or(first == last, first == 1, last == 1),
        lambda: f"input.size({dim}) and mat2.size({dim}) must be equal or 1, got {first} and {last}",
    )
    return last if guard_or_false(first == 1) else first
