"""npu_gather_sparse_index and its gradient: argument rules and results.

input has any dtype but the float8 and float4 ones; index is int32 or int64 of at most seven dimensions, the result has
at most eight. The gradient needs an index of one dimension, because aclnnIndexAddV2, which computes it, takes no other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.cache import gather_sparse_index as reference
from torch import Tensor

DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip
MOST_OF_INDEX, MOST = 7, 8


@operator("npu_gather_sparse_index", reference=reference.gather_sparse_index)
def gather_sparse_index(rules: Rules, input: Tensor, index: Tensor) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, DTYPES)
    rules.rank("input", input, 1, MOST)
    rules.dtype("index", index, (torch.int32, torch.int64))
    rules.rank("index", index, 0, MOST_OF_INDEX)
    rank = input.dim() + index.dim() - 1
    rules.require(rank <= MOST, lambda: f"input and index must have {MOST + 1} dimensions at most, got {rank + 1}")
    return Plan((Result((*index.shape, *input.shape[1:]), input.dtype),))


@operator("npu_gather_sparse_index_backward", reference=reference.gather_sparse_index_backward)
def gather_sparse_index_backward(rules: Rules, grad: Tensor, self_sizes: Sequence[Size], index: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("grad", grad, FLOATS)
    rules.dtype("index", index, (torch.int32, torch.int64))
    rules.rank("index", index, 1, why=" for a gradient")
    rules.require(len(self_sizes) >= 1, lambda: "self_sizes must have a size at least, got none")
    rules.rank("grad", grad, len(self_sizes), why=", as self_sizes has sizes")
    for dim, size in enumerate((index.size(0), *self_sizes[1:])):
        rules.equal(f"grad.size({dim})", grad.size(dim), "index.size(0)" if dim == 0 else f"self_sizes[{dim}]", size)
    return Plan((Result(tuple(self_sizes), grad.dtype),))
