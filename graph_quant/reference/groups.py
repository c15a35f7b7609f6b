"""Rows in groups: ``group_ends[e]`` is the row after the last one of group e, and group 0 starts at row 0."""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


def group_of_row(group_ends: Tensor, rows: int) -> Tensor:
    """The group of each row. Empty groups own no row, so that the first end above the row decides."""
    row = torch.arange(rows, dtype=group_ends.dtype, device=group_ends.device)
    return torch.searchsorted(group_ends, row, right=True)


@value_check
def checked_ends(op: str, group_index: Tensor, rows: int) -> Tensor:
    """``group_index``, refused where the device kernel would trap: ends never decrease and lead to ``rows``."""
    previous = 0
    for position, end in enumerate(group_index.tolist()):
        where = f"group_index[{position}]"
        if not 0 <= end <= rows:
            raise Refusal(f"{op}: {where} must lie in [0, {rows}], the rows of x, got {end}")
        if end < previous:
            raise Refusal(f"{op}: {where} must not be below the value before it, got {end} after {previous}")
        previous = end
    if previous != rows:
        raise Refusal(f"{op}: the last value of group_index must equal {rows}, the rows of x, got {previous}")
    return group_index
