"""Eager torch writes every intermediate to memory; run on a few rows at a time it stays in cache instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

# Float32 elements of one block. A block and its intermediates have to share the second-level cache.
BLOCK_ELEMENTS = 1 << 18

Results = tuple[torch.Tensor, ...]


def row_blocks(start: int, end: int, width: int) -> Iterator[slice]:
    """Consecutive slices that cover rows ``start`` to ``end``, each of about BLOCK_ELEMENTS elements."""
    height = max(1, BLOCK_ELEMENTS // max(width, 1))
    for first in range(start, end, height):
        yield slice(first, min(first + height, end))


def by_row_blocks(compute: Callable[[slice], Results], rows: int, width: int) -> Results:
    """Joins what ``compute`` returns for each block of rows, as if it had run on all of them at once."""
    blocks = list(row_blocks(0, rows, width)) or [slice(0, 0)]
    results = [compute(block) for block in blocks]
    if len(results) == 1:
        return results[0]
    return tuple(torch.cat(parts) for parts in zip(*results, strict=True))
