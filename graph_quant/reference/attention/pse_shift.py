"""The position shift of scores, pse, in every form that npu_fusion_attention takes.

- A value per score or per key: (batch or 1, head, query or 1, key); in layout TND the sequences are flattened and
  concatenated.
- The last 1024 rows of a shift that depends on the distance of query and key alone, (batch or 1, head, 1024, key), for
  as many keys as queries under a causal mask.
- In types 2 and 3 a slope per head, (head) or (batch, head): minus slope times distance, or its square root.

In type 1 the shift is added before scaling, in the others after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .token_spans import TokenSpan

Pairs = Sequence[tuple[TokenSpan, TokenSpan]]
ROWS = 1024
SHIFT_FIRST, SLOPE, SLOPE_OF_ROOT = 1, 2, 3
SLOPES = (SLOPE, SLOPE_OF_ROOT)


def slice_sequence(flat: Tensor, pairs: Pairs, sequence: int, heads: int, by_key: bool = False) -> Tensor:
    """The part of one sequence, (head, query or 1, key), of a flat tensor that concatenates all of them."""
    sizes = [(1 if by_key else queries.length) * keys.length for queries, keys in pairs[: sequence + 1]]
    start, size = heads * sum(sizes[:-1]), heads * sizes[-1]
    return flat[start : start + size].view(heads, -1, pairs[sequence][1].length)


@dataclass(frozen=True)
class PseShift:
    """The shift of one call; ``starts`` are the positions of the first query and of the first key."""

    pse: Tensor
    kind: int
    is_packed: bool
    heads: int
    starts: tuple[int, int] = (0, 0)

    def scaled(self, products: Tensor, scale: float, pairs: Pairs, sequence: int) -> Tensor:
        """The scaled and shifted scores of one sequence, from its dot products."""
        shift = self._of(pairs, sequence)
        if self.kind == SHIFT_FIRST:
            return products.add_(shift).mul_(scale)
        return products.mul_(scale).add_(shift)

    def gradient(self, into: Tensor, of_scores: Tensor, scale: float, pairs: Pairs, sequence: int) -> None:
        """Accumulates the contribution of one sequence to the gradient of the shift."""
        of_shift = of_scores * scale if self.kind == SHIFT_FIRST else of_scores
        if self.kind in SLOPES:
            rows = into if into.dim() == 1 else into[sequence]
            rows += (of_shift * -self._distance(pairs, sequence)).sum((1, 2))
        elif self._is_table(pairs, sequence):
            rows, columns, seen = self._kept_indices(pairs, sequence)
            heads = torch.arange(self.heads)[:, None, None]
            into[self._batch(sequence)].index_put_((heads, rows, columns), of_shift * seen, accumulate=True)
        else:
            part = self._part(into, pairs, sequence)
            part += of_shift.sum_to_size(part.shape)

    def _of(self, pairs: Pairs, sequence: int) -> Tensor:
        if self.kind in SLOPES:
            slopes = self.pse if self.pse.dim() == 1 else self.pse[sequence]
            return -slopes.float()[:, None, None] * self._distance(pairs, sequence)
        if self._is_table(pairs, sequence):
            rows, columns, _ = self._kept_indices(pairs, sequence)
            return self.pse[self._batch(sequence)].float()[:, rows, columns]
        return self._part(self.pse, pairs, sequence).float()

    def _batch(self, sequence: int) -> int:
        return sequence if self.pse.size(0) > 1 else 0

    def _part(self, whole: Tensor, pairs: Pairs, sequence: int) -> Tensor:
        if not self.is_packed:
            return whole[self._batch(sequence)]
        by_key = whole.numel() == self.heads * sum(keys.length for _, keys in pairs)
        return slice_sequence(whole.view(-1), pairs, sequence, self.heads, by_key)

    def _is_table(self, pairs: Pairs, sequence: int) -> bool:
        if self.pse.dim() != 4 or self.pse.size(2) != ROWS:
            return False
        return self.is_packed or pairs[sequence][0].length > ROWS

    def _distance(self, pairs: Pairs, sequence: int) -> Tensor:
        queries, keys = (span.length for span in pairs[sequence])
        first, first_key = self.starts
        distance = (torch.arange(keys) + first_key - torch.arange(queries)[:, None] - first).abs().float()
        return distance.double().sqrt().float() if self.kind == SLOPE_OF_ROOT else distance

    def _kept_indices(self, pairs: Pairs, sequence: int) -> tuple[Tensor, Tensor, Tensor]:
        """Row and column in the stored rows that hold the distance of each query and key, and the causal mask."""
        queries, keys = (span.length for span in pairs[sequence])
        row, column = torch.arange(queries)[:, None], torch.arange(keys)
        width, distance = self.pse.size(3), (row - column).clamp_min(0)
        before = width - ROWS
        if self.is_packed:
            kept_row, kept_column = (distance - before).clamp_min(0), (before - distance).clamp_min(0)
        else:
            kept_row = torch.where(row >= before, row - before, row % ROWS).expand(queries, keys)
            kept_column = before + kept_row - distance
        return kept_row, kept_column, row >= column
