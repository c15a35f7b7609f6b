"""Distances between rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...ge import kernel


def _order(p: float) -> float:
    """A negative order is how the device is told of the largest difference."""
    return math.inf if p < 0 else p


@kernel("Cdist")
def cdist(x1: Tensor, x2: Tensor, *, p: float = 2.0) -> Tensor:
    """Of rows that stand beside each other, (..., m) both."""
    rows = [x.reshape(-1, 1, x.size(-1)) for x in (x1, x2)]
    found = torch.cdist(rows[0].float(), rows[1].float(), _order(p), "donot_use_mm_for_euclid_dist")
    return found.reshape(x1.shape[:-1]).to(x1.dtype)


@kernel("Pdist")
def pdist(x: Tensor, *, p: float = 2.0) -> Tensor:
    return torch.ops.aten._pdist_forward(x.float(), _order(p)).to(x.dtype)  # type: ignore[no-any-return]
