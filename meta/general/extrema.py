"""npu_max and npu_min along a dimension with their gradients, and npu_sort_v2: argument rules and results.

Indices are int32. npu_sort_v2 sorts the last dimension and compares in float16.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.general import extrema as reference
from torch import Tensor


def _reduced_shape(rules: Rules, sizes: Sequence[Size], dim: int, keepdim: bool) -> tuple[Size, ...]:
    rank = len(sizes)
    rules.require(-rank <= dim < rank, lambda: f"dim must lie in [{-rank}, {rank}), got {dim}")
    axis = dim % rank
    return (*sizes[:axis], *([1] if keepdim else []), *sizes[axis + 1 :])


def _plan(rules: Rules, x: Tensor, dim: int, keepdim: bool) -> Plan:
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.not_empty("input", x)
    shape = _reduced_shape(rules, x.shape, dim, keepdim)
    return Plan((Result(shape, x.dtype), Result(shape, torch.int32)))


@operator("npu_max.dim", reference=reference.max_dim)
def max_dim(rules: Rules, input: Tensor, dim: int, keepdim: bool) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    return _plan(rules, input, dim, keepdim)


@operator("npu_min.dim", reference=reference.min_dim)
def min_dim(rules: Rules, input: Tensor, dim: int, keepdim: bool) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    return _plan(rules, input, dim, keepdim)


@operator("npu_max_backward", reference=reference.backward)
@operator("npu_min_backward", reference=reference.backward)
def backward(rules: Rules, grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[Size], keepdim: bool) -> Plan:
    """Check a call as autograd makes it and return its plan."""
    rules.dtype("grad", grad, FLOATS)
    rules.dtype("indices", indices, (torch.int32,))
    shape = _reduced_shape(rules, tuple(sizes), dim, keepdim)
    for name, tensor in (("grad", grad), ("indices", indices)):
        rules.equal(f"{name}.dim()", tensor.dim(), "the rank of what was reduced", len(shape))
        for axis, size in enumerate(shape):
            rules.equal(f"{name}.size({axis})", tensor.size(axis), "that of what was reduced", size)
    return Plan((Result(tuple(sizes), grad.dtype),))


@operator("npu_sort_v2", reference=reference.sort)
def sort(rules: Rules, input: Tensor, dim: int, descending: bool) -> Plan:  # noqa: A002, ARG001 - either
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, (torch.float16, torch.float32))
    rules.rank("input", input, 1, 8)
    rules.one_of("dim", dim, (-1, input.dim() - 1), why=", the last one")
    return Plan((Result(tuple(input.shape), input.dtype),))
