"""npu_mrope: rotary embedding of queries and keys, with coefficients gathered from a cache by position.

A row of the cache holds cosines, then sines, each half the rotated width. With several rows of positions each section
of the width takes its coefficients from its own row. In cache_mode interleave, elements take the coefficients of row 0,
1 and 2 in turn up to three times the second section, and those of row 0 beyond. Float32, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.ge import kernel
from graph_quant.reference.index_checks import checked_index
from graph_quant.reference.rope.rotation import HALF, INTERLEAVE, rotate_pairs
from torch import Tensor

OP = "npu_mrope"


def coefficients(rows: Tensor, sections: Sequence[int], is_interleaved: bool) -> Tensor:
    """The coefficients of each token, (tokens, width / 2), from those of each row, (rows, tokens, width / 2)."""
    if not is_interleaved:
        starts = [sum(sections[:section]) for section in range(len(sections))]
        parts = [rows[section, :, start : start + sections[section]] for section, start in enumerate(starts)]
        return torch.cat(parts, -1)
    element = torch.arange(rows.size(-1))
    row = torch.where(element < sections[1] * 3, element % 3, 0)
    return rows.gather(0, row.expand(1, *rows.shape[1:])).squeeze(0)


def mrope(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    sections: Sequence[int],
    rotary_mode: str | None,
    is_interleaved: bool,
) -> tuple[Tensor, Tensor]:
    """Both embeddings; without ``sections`` positions are one row."""
    rows = cos_sin_cache[checked_index(OP, "positions", positions, 0, cos_sin_cache.size(0)).long()].float()
    halves = rows.chunk(2, -1)
    cos, sin = (coefficients(half, sections, is_interleaved) for half in halves) if sections else halves
    mode = rotary_mode or HALF
    if mode == HALF:
        cos, sin = (torch.cat([half, half], -1)[:, None] for half in (cos, sin))
    else:
        cos, sin = (half.repeat_interleave(2, -1)[:, None] for half in (cos, sin))

    def embedded(x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (-1, head_size))
        part = heads[..., : cos.size(-1)].float()
        rotated = (part * cos + rotate_pairs(part, mode) * sin).to(x.dtype)
        return torch.cat([rotated, heads[..., cos.size(-1) :]], -1).flatten(-2)

    return embedded(query), embedded(key)


@kernel("RopeWithSinCosCache", flops=3, same=("queryIn", "keyIn", "cosSinCache"))
def rope_with_sin_cos_cache(
    positions: Tensor,
    queryIn: Tensor,  # noqa: N803 (the node's own names)
    keyIn: Tensor,  # noqa: N803
    cosSinCache: Tensor,  # noqa: N803
    *,
    numQHeads: int,  # noqa: ARG001, N803
    numKHeads: int,  # noqa: ARG001, N803
    headSize: int,  # noqa: N803
    mropeSection: Sequence[int] = (0, 0, 0),  # noqa: N803
    qStride: int = 0,  # noqa: ARG001, N803
    kStride: int = 0,  # noqa: ARG001, N803
    isNeoxStyle: bool = True,  # noqa: N803
    cacheMode: int = 0,  # noqa: N803
) -> tuple[Tensor, Tensor]:
    sections = mropeSection if any(mropeSection) else ()
    mode = HALF if isNeoxStyle else INTERLEAVE
    return mrope(positions, queryIn, keyIn, cosSinCache, headSize, sections, mode, cacheMode == 1)
