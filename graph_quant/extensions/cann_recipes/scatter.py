"""scatter_nd_update_asc: rows of a matrix are replaced, in place; negative indices are skipped."""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.reference.index_checks import check_range
from torch import Tensor

_OP = "scatter_nd_update_asc"
_WIDTHS = (1, 128, 512)


def scatter_nd_update_asc(var: Tensor, indices: Tensor, update: Tensor) -> tuple[()]:
    """Write the rows; where an index occurs twice, the last row stays."""
    rows = indices.squeeze(-1).long()
    check_range(_OP, "indices", rows.clamp(min=-1), -1, var.size(0))
    for row, values in zip(rows.tolist(), update, strict=True):
        if row >= 0:
            var[row] = values
    return ()


@operator(f"custom::{_OP}", reference=scatter_nd_update_asc)
def rules_of_scatter_nd_update_asc(rules: Rules, var: Tensor, indices: Tensor, update: Tensor) -> Plan:
    """Check a call by the extension's document and host code; it returns nothing."""
    rules.dtype("var", var, (torch.bfloat16, torch.float16, torch.int8))
    rules.dtype("update", update, (var.dtype,), ", the dtype of var")
    rules.dtype("indices", indices, (torch.int32, torch.int64))
    for name, tensor in (("var", var), ("indices", indices), ("update", update)):
        rules.rank(name, tensor, 2)
        rules.not_empty(name, tensor)
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023
    rules.one_of("var.size(1)", var.size(1), _WIDTHS)
    rules.equal("indices.size(1)", indices.size(1), "1", 1)
    rules.shape("update", update, (indices.size(0), var.size(1)), ("indices.size(0)", "var.size(1)"))
    rules.require(
        indices.size(0) <= var.size(0),
        lambda: f"indices.size(0) must be at most var.size(0), got {indices.size(0)} and {var.size(0)}",
    )
    return Plan(())
