"""npu_scatter_nd_update and npu_scatter_nd_update_: argument rules and results.

input has one to eight dimensions. indices is int32 or int64 of two dimensions or more, and its last one, of a elements,
indexes the first a dimensions of input. updates has input's dtype and the shape of indices without its last
dimension, followed by that of input without its first a.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache import scatter_nd_update as reference
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int64, torch.int8)


@operator("npu_scatter_nd_update_", reference=reference.scatter_nd_update_, results=lambda _: ("x",), chips=A2_A3_950)
@operator("npu_scatter_nd_update", reference=reference.scatter_nd_update, chips=A2_A3_950)
def scatter_nd_update(rules: Rules, x: Tensor, indices: Tensor, updates: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, DTYPES)
    rules.rank("input", x, 1, 8)
    rules.dtype("indices", indices, (torch.int32, torch.int64))
    rules.require(indices.dim() >= 2, lambda: f"indices must have 2 dimensions or more, got {list(indices.shape)}")
    depth = int(indices.size(-1))  # it decides the rank of updates, so that no symbol will do
    rules.require(
        1 <= depth <= x.dim(),
        lambda: f"indices.size(-1) must lie in [1, {x.dim()}], the dimensions of input, got {depth}",
    )
    rules.dtype("updates", updates, (x.dtype,), ", the dtype of input")
    shape = (*indices.shape[:-1], *x.shape[depth:])
    rules.rank("updates", updates, len(shape))
    for dim, size in enumerate(shape):
        source = f"indices.size({dim})" if dim < indices.dim() - 1 else f"input.size({dim - len(shape)})"
        rules.equal(f"updates.size({dim})", updates.size(dim), source, size)
    return Plan((Result(tuple(x.shape), x.dtype),))
