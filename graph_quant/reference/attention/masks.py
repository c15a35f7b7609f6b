"""Attention masks: which keys a query does not see.

The sparse mode defines the meaning of atten_mask: 0 the mask and the band that ``pre_tokens`` and ``next_tokens`` leave
around the diagonal, 1 the mask alone, 2 causal from the upper left corner, 3 causal from the lower right corner, 4 the
band around the diagonal from the lower right corner. From 2 on the mask is the kernel's table, 2048 x 2048, true above
its diagonal. 9 is a tree of speculative tokens: the mask covers the last keys, as many as there are queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .token_spans import TokenSpan

TABLE = 2048
MASK_ALONE, TREE = 1, 9
# The rows below a table for prefixes: their right half is hidden.
PREFIX_ROWS = 1024


@cache
def _table_mask(rows: int) -> Tensor:
    hidden = torch.ones(rows, TABLE, dtype=torch.bool).triu(1)
    hidden[TABLE:, TABLE // 2 :] = True
    return hidden


def check_table(op: str, mask: Tensor, rows: int = TABLE) -> None:
    """Refuses a table for sparse modes from 2 on that is not true exactly above its diagonal."""
    values, expected = mask.reshape(rows, TABLE), _table_mask(rows)
    as_bool = values.view(torch.bool) if values.dtype in (torch.int8, torch.uint8) else values
    if not torch.equal(as_bool, expected):
        row, column = map(int, (values.bool() != expected).nonzero()[0])
        raise Refusal(
            f"{op}: the values of atten_mask must be 1 above its diagonal and 0 elsewhere from sparse_mode 2 on, "
            f"got {int(values[row, column])} at [{row}, {column}]"
        )


@dataclass(frozen=True)
class Tree:
    """A mask of queries over the last keys: (batch, query, query), or flat and packed by ``ends``."""

    op: str
    mask: Tensor
    ends: Sequence[int] | None

    def hidden(self, sequence: int, queries: int, keys: int) -> Tensor:
        """The keys of a sequence that its queries do not see, (query, key)."""
        if keys < queries:
            raise Refusal(
                f"{self.op}: sequence {sequence} must have a key for each query in sparse_mode 9, "
                f"got {keys} and {queries}"
            )
        seen = torch.zeros(queries, keys - queries, dtype=torch.bool)
        return torch.cat([seen, self._of(sequence, queries).bool()], -1)

    def _of(self, sequence: int, queries: int) -> Tensor:
        if self.ends is None:
            return self.mask[sequence, :queries, :queries]
        lengths = [end - before for before, end in pairwise((0, *self.ends))]
        start = sum(length**2 for length in lengths[:sequence])
        return self.mask[start : start + queries**2].view(queries, queries)


@dataclass(frozen=True)
class Mask:
    """The mask of a call. ``mask`` is (batch or 1, query, key) in the modes 0 and 1, else None."""

    mode: int
    mask: Tensor | None
    pre_tokens: int
    next_tokens: int

    def by_mask(self, query: TokenSpan, key: TokenSpan) -> Tensor | None:
        """The keys that the mask tensor hides, (query, key)."""
        if self.mask is None:
            return None
        rows = self.mask[query.batch if self.mask.size(0) > 1 else 0]
        return rows[query.start : query.stop, key.start : key.stop].bool()

    def by_position(self, queries: int, keys: int) -> Tensor | None:
        """The keys hidden by their position, (query, key)."""
        after, before = self.reach(queries, keys)
        if after is None and before is None:
            return None
        distance = torch.arange(keys) - torch.arange(queries)[:, None]
        if before is None or before <= -queries:
            return None if after is None or after >= keys else distance > after
        hidden = distance < before
        return hidden if after is None or after >= keys else hidden | (distance > after)

    def reach(self, queries: int, keys: int) -> tuple[int | None, int | None]:
        """The last and the first visible distance ``key - query``; None is unlimited."""
        if self.mode == 0 and self.mask is not None:
            return self.next_tokens, -self.pre_tokens
        if self.mode == 2:
            return 0, None
        if self.mode == 3:
            return keys - queries, None
        if self.mode == 4:
            return keys - queries + self.next_tokens, keys - queries - self.pre_tokens
        return None, None
