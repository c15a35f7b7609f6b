"""npu_gather_sparse_index: what may be passed, and what comes back.

Rows of input, of any dtype but the smallest floats, by index, int32 or int64 of at most seven dimensions; the result
has at most eight.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache.gather_sparse_index import gather_sparse_index as reference
from torch import Tensor

DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip
MOST_OF_INDEX, MOST = 7, 8


@operator("npu_gather_sparse_index", reference=reference)
def gather_sparse_index(rules: Rules, input: Tensor, index: Tensor) -> Plan:  # noqa: A002
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", input, DTYPES)
    rules.rank("input", input, 1, MOST)
    rules.dtype("index", index, (torch.int32, torch.int64))
    rules.rank("index", index, 0, MOST_OF_INDEX)
    rank = input.dim() + index.dim() - 1
    rules.require(rank <= MOST, lambda: f"input and index must have {MOST + 1} dimensions at most, got {rank + 1}")
    return Plan((Result((*index.shape, *input.shape[1:]), input.dtype),))
