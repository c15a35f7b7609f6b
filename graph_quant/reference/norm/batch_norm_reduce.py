"""batch_norm_reduce: the sums of each channel and of its squares, in float32. A device adds in an order of its own."""

from __future__ import annotations

from torch import Tensor


def batch_norm_reduce(x: Tensor) -> tuple[Tensor, Tensor]:
    """``(sum, square_sum)``, (channels,) each."""
    wide = x.float()
    return wide.sum((0, 2, 3)), (wide * wide).sum((0, 2, 3))
