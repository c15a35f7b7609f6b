"""Rotary position embedding of pairs that stand side by side, their first halves brought to the front."""

from __future__ import annotations

import torch
from torch import Tensor


def interleaved_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x`` rotated, in float32: even elements, then odd ones."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.cat([even, odd], dim=-1) * cos + torch.cat([-odd, even], dim=-1) * sin
