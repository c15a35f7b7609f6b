"""What the rotary embeddings share: ``x * cos + rotated(x) * sin``, where pairs (a, b) of x rotate into (-b, a).

In mode half a pair is an element and the one half the width further, in mode interleave two neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

HALF, INTERLEAVE = "half", "interleave"
MODES = (HALF, INTERLEAVE)


def rotate_pairs(x: Tensor, mode: str = HALF) -> Tensor:
    """``x`` with each pair turned by a right angle."""
    if mode == HALF:
        first, second = x.chunk(2, -1)
        return torch.cat([-second, first], -1)
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x`` in float32, whose pairs are neighbours, rotated: even elements, then odd ones."""
    apart = torch.cat([x[..., ::2], x[..., 1::2]], -1)
    return apart * cos + rotate_pairs(apart) * sin
