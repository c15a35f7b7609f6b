"""Rows in groups: ``group_ends[e]`` is the row after the last one of group e, and group 0 starts at row 0."""

from __future__ import annotations

import torch


def group_of_row(group_ends: torch.Tensor, rows: int) -> torch.Tensor:
    """The group of each row. Empty groups own no row, so that the first end above the row decides."""
    row = torch.arange(rows, dtype=group_ends.dtype, device=group_ends.device)
    return torch.searchsorted(group_ends, row, right=True)


def check_group_ends(op: str, group_ends: torch.Tensor, rows: int, *, allow_empty: bool) -> list[int]:
    """The ends as numbers, or RuntimeError where the device kernel would trap."""
    ends: list[int] = group_ends.tolist()
    lowest = 0 if allow_empty else 1
    previous = 0
    for position, end in enumerate(ends):
        where = f"group_index[{position}]"
        if not lowest <= end <= rows:
            raise RuntimeError(f"{op}: {where} must lie in [{lowest}, {rows}], the rows of x, got {end}")
        if end < previous or (end == previous and position and not allow_empty):
            order = "must not be below" if allow_empty else "must be above"
            raise RuntimeError(f"{op}: {where} {order} the value before it, got {end} after {previous}")
        previous = end
    if previous != rows:
        raise RuntimeError(f"{op}: the last value of group_index must equal {rows}, the rows of x, got {previous}")
    return ends
