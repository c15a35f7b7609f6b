"""batch_norm_reduce: the sum and the sum of squares of each channel, in float32; a device adds in another order."""

from __future__ import annotations

from torch import Tensor


def batch_norm_reduce(x: Tensor) -> tuple[Tensor, Tensor]:
    """``(sum, square_sum)``, (channels,) each."""
    wide = x.float()
    return wide.sum((0, 2, 3)), (wide * wide).sum((0, 2, 3))
