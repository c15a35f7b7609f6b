"""Which kernel of MoeInitRoutingV3 quantises: one that holds a row in local memory rounds differently from the others.

The sizes are those of the device's tiling on A2 and A3, where a vector core has 192 KiB.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LOCAL_BYTES = 192 * 1024
_BLOCK_BYTES = 32
# Pairs that one core sorts alone.
_MOST_PAIRS = 6080
# Bytes of local memory per element of a row: of the kernel for few pairs, and of the one for many.
_FEW_PAIRS_BYTES, _MANY_PAIRS_BYTES = 13, 21


def rounds_through_half(x: Tensor, pairs: int, experts: int) -> bool:
    """Whether rows of ``x`` are quantised in pieces: quotients are then truncated to float16, and ties round away."""
    elements_a_block = _BLOCK_BYTES // x.element_size()
    row = _up(x.size(1), elements_a_block) * _MANY_PAIRS_BYTES
    fits = _LOCAL_BYTES - row - 2 * _BLOCK_BYTES >= 16
    return not fits and not _fits_with_few_pairs(x.size(1), pairs, experts)


def _fits_with_few_pairs(width: int, pairs: int, experts: int) -> bool:
    sorting = _up(pairs, 32) * 4 * 9
    counting = _up(experts * 8, _BLOCK_BYTES) * 2
    row = _up(width, _BLOCK_BYTES) * _FEW_PAIRS_BYTES + 2 * _BLOCK_BYTES
    return pairs <= _MOST_PAIRS and _LOCAL_BYTES - sorting - counting - 1024 - row > 0


def _up(number: int, multiple: int) -> int:
    return (number + multiple - 1) // multiple * multiple


def round_half_away(values: Tensor) -> Tensor:
    """``values`` truncated to float16, then rounded to integers with ties away from zero."""
    half = values.to(torch.float16)
    beyond = half.float().abs() > values.abs()
    cut = torch.where(beyond, (half.view(torch.int16) - 1).view(torch.float16), half).float()
    return torch.copysign((cut.abs() + 0.5).floor(), cut)
