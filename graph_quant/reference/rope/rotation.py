"""Rotation shared by the rotary embeddings: ``x * cos + rotate_pairs(x) * sin``, where pairs (a, b) become (-b, a).

In mode half a pair is an element and the one half the width further, in mode interleave two neighbours. Ascend 950 also
has quarter, which is half in each half of the width, and interleave-half, whose pairs are neighbours in the input and
half the width apart in the result.
"""

from __future__ import annotations

import torch
from graph_quant.chip import is_950
from torch import Tensor

HALF, INTERLEAVE, QUARTER, INTERLEAVE_HALF = "half", "interleave", "quarter", "interleave-half"
# By their numbers on the device.
MODES_950 = (HALF, INTERLEAVE, QUARTER, INTERLEAVE_HALF)
MODES = MODES_950[:2]


def modes() -> tuple[str, ...]:
    """The modes of the chip in use."""
    return MODES_950 if is_950() else MODES


def rotate_pairs(x: Tensor, mode: str = HALF) -> Tensor:
    """``x`` with each pair (a, b) replaced by (-b, a)."""
    if mode == HALF:
        first, second = x.chunk(2, -1)
        return torch.cat([-second, first], -1)
    if mode == QUARTER:
        return torch.cat([rotate_pairs(part) for part in x.chunk(2, -1)], -1)
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def separate_neighbours(x: Tensor) -> Tensor:
    """The even elements of ``x``, then the odd ones."""
    return torch.cat([x[..., ::2], x[..., 1::2]], -1)


def interleave_halves(x: Tensor) -> Tensor:
    """The inverse of ``separate_neighbours``."""
    return torch.stack(x.chunk(2, -1), -1).flatten(-2)


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotary embedding of float32 ``x`` with neighbours as pairs; even elements first in the result."""
    apart = separate_neighbours(x)
    return apart * cos + rotate_pairs(apart) * sin
