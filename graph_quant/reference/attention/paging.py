"""A cache in blocks, and the tokens of one sequence in it, named by a row of a block table.

A cache is (blocks, block size, heads * channels), (blocks, heads, block size, channels), or in the order of FRACTAL_NZ
(blocks, heads, channels / c, block size, c) with 32 bytes in c.
"""

from __future__ import annotations

from torch import Tensor


def blocks_of(op: str, block_table: Tensor, batch: int, length: int, block_size: int, blocks: int) -> Tensor:
    """The numbers of the blocks that hold the first ``length`` tokens of a sequence."""
    chosen = block_table[batch, : -(-length // block_size)].long()
    wrong = ((chosen < 0) | (chosen >= blocks)).nonzero()
    if wrong.numel():
        position = int(wrong[0])
        raise RuntimeError(
            f"{op}: block_table[{batch}][{position}] must lie in [0, {blocks}), the blocks of the cache, "
            f"got {int(chosen[position])}"
        )
    return chosen


def tokens_of(cache: Tensor, blocks: Tensor, length: int, heads: int) -> Tensor:
    """The first ``length`` tokens in ``blocks`` of a cache, as (head, token, channel)."""
    found = cache[blocks]
    if cache.dim() == 3:
        found = found.unflatten(-1, (heads, -1)).permute(2, 0, 1, 3)
    elif cache.dim() == 4:
        found = found.transpose(0, 1)
    else:
        found = found.permute(1, 0, 3, 2, 4).flatten(-2)
    return found.flatten(1, 2)[:, :length]
