"""Computation by blocks of rows, and row groups with their own parameters.

Eager torch writes every intermediate to memory; computed by blocks of rows, intermediates stay in cache.
``group_ends[e]`` is the row after the last one of group e, and group 0 starts at row 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

# Float32 elements of one block. A block and its intermediates have to share the second-level cache.
BLOCK_ELEMENTS = 1 << 18

Results = tuple[torch.Tensor, ...]


def row_blocks(start: int, end: int, width: int) -> Iterator[slice]:
    """Consecutive slices that cover rows ``start`` to ``end``, each of about BLOCK_ELEMENTS elements."""
    height = max(1, BLOCK_ELEMENTS // max(width, 1))
    for first in range(start, end, height):
        yield slice(first, min(first + height, end))


def by_row_blocks(compute: Callable[[slice], Results], rows: int, width: int) -> Results:
    """Concatenate the results of ``compute`` for each block of rows, as if it had run on all of them at once."""
    blocks = list(row_blocks(0, rows, width)) or [slice(0, 0)]
    results = [compute(block) for block in blocks]
    if len(results) == 1:
        return results[0]
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))


def group_of_row(group_ends: Tensor, rows: int) -> Tensor:
    """The group index of each row: that of the first end above it, so that empty groups have no row."""
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
