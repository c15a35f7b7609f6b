"""scatter_update and scatter_update_: argument rules and results.

input and updates have the same rank, two to eight, and dtype. indices is int32 or int64: (B,), a position of axis for
each batch of updates, or (B, 2), a batch of input and the position in it. axis is not the batch. Nothing is empty.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache import scatter_update as reference
from torch import Tensor

DTYPES = (torch.int8, torch.float16, torch.float32, torch.bfloat16, torch.int32)


def check_positions(rules: Rules, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> None:
    """Check that ``indices`` are positions of ``x`` along ``axis`` and that ``updates`` fit there."""
    rules.dtype("indices", indices, (torch.int32, torch.int64))
    rules.rank("indices", indices, 1, 2)
    rules.rank("updates", updates, x.dim(), why=", as input has")
    rules.equal("indices.size(0)", indices.size(0), "updates.size(0)", updates.size(0))
    if indices.dim() == 2:
        rules.equal("indices.size(1)", indices.size(1), "2, a batch and its position", 2)
    for name, tensor in (("input", x), ("indices", indices), ("updates", updates)):
        rules.not_empty(name, tensor)
    for dim in range(x.dim()):
        name, size, own = f"updates.size({dim})", updates.size(dim), x.size(dim)
        if dim in (0, axis % x.dim()):
            rules.require(size <= own, lambda: f"{name} must not exceed input.size({dim}), got {size} and {own}")  # noqa: B023
        else:
            rules.equal(name, size, f"input.size({dim})", own)


@operator("scatter_update_", reference=reference.scatter_update_, results=lambda _: ("x",), chips=A2_A3_950)
@operator("scatter_update", reference=reference.scatter_update, chips=A2_A3_950)
def scatter_update(rules: Rules, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, DTYPES)
    rules.rank("input", x, 2, 8)
    rules.dtype("updates", updates, (x.dtype,), ", the dtype of input")
    rules.require(
        -x.dim() <= axis < x.dim() and axis % x.dim() != 0,
        lambda: f"axis must be a dimension of input other than the batch, got {axis} of {x.dim()}",
    )
    check_positions(rules, x, indices, updates, axis)
    return Plan((Result(tuple(x.shape), x.dtype),))
