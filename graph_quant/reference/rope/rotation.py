"""Rotation shared by the rotary embeddings: ``x * cos + rotate_pairs(x) * sin``, where pairs (a, b) become (-b, a).

In mode half a pair is an element and the one half the width further, in mode interleave two neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

HALF, INTERLEAVE = "half", "interleave"
MODES = (HALF, INTERLEAVE)


def rotate_pairs(x: Tensor, mode: str = HALF) -> Tensor:
    """``x`` with each pair (a, b) replaced by (-b, a)."""
    if mode == HALF:
        first, second = x.chunk(2, -1)
        return torch.cat([-second, first], -1)
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotary embedding of float32 ``x`` with neighbours as pairs; even elements first in the result."""
    apart = torch.cat([x[..., ::2], x[..., 1::2]], -1)
    return apart * cos + rotate_pairs(apart) * sin
