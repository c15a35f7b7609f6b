"""Paged caches: the tokens of one sequence in a cache of blocks, addressed by a row of the block table.

A cache is (blocks, block size, heads * channels), (blocks, heads, block size, channels), or in the order of FRACTAL_NZ
(blocks, heads, channels / c, block size, c) with 32 bytes in c.
"""

from __future__ import annotations

from dataclasses import dataclass

from graph_quant.refusals import Refusal
from torch import Tensor


def checked_blocks(op: str, block_table: Tensor, batch: int, length: int, block_size: int, blocks: int) -> Tensor:
    """The indices of the blocks that hold the first ``length`` tokens of a sequence."""
    chosen = block_table[batch, : -(-length // block_size)].long()
    wrong = ((chosen < 0) | (chosen >= blocks)).nonzero()
    if wrong.numel():
        position = int(wrong[0])
        raise Refusal(
            f"{op}: block_table[{batch}][{position}] must lie in [0, {blocks}), the blocks of the cache, "
            f"got {int(chosen[position])}"
        )
    return chosen


@dataclass(frozen=True)
class PagedTokens:
    """The first ``tokens`` tokens of one sequence, in the blocks ``blocks`` of a cache of ``heads`` heads."""

    cache: Tensor
    blocks: Tensor
    tokens: int
    heads: int

    @property
    def channels(self) -> int:
        """Channels per head."""
        if self.cache.dim() == 5:
            return self.cache.size(2) * self.cache.size(4)
        return self.cache.size(-1) // (self.heads if self.cache.dim() == 3 else 1)

    def fill(self, tile: Tensor, head: int, start: int) -> None:
        """Copies tokens of one head, starting at ``start``, into ``tile`` until it is full."""
        of_head = self._of_head(head)  # block, token in it, channel
        size = of_head.size(1)
        first, last = start // size, -(-(start + tile.size(0)) // size)
        rows = of_head.index_select(0, self.blocks[first:last]).flatten(2).flatten(0, 1)
        tile.copy_(rows[start - first * size :][: tile.size(0)])

    def _of_head(self, head: int) -> Tensor:
        if self.cache.dim() == 3:
            return self.cache.unflatten(-1, (self.heads, -1))[:, :, head]
        of_head = self.cache[:, head]
        return of_head.transpose(1, 2) if self.cache.dim() == 5 else of_head
