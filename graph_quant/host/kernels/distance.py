"""Distances between rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...ge import kernel


def _order(p: float) -> float:
    """Return the order of a norm; GE encodes infinity as a negative number."""
    return math.inf if p < 0 else p


@kernel("Cdist")
def cdist(x1: Tensor, x2: Tensor, *, p: float = 2.0) -> Tensor:
    """Compute the distance of corresponding rows of two tensors (..., m)."""
    rows = [x.reshape(-1, 1, x.size(-1)) for x in (x1, x2)]
    distances = torch.cdist(rows[0].float(), rows[1].float(), _order(p), "donot_use_mm_for_euclid_dist")
    return distances.reshape(x1.shape[:-1]).to(x1.dtype)


@kernel("Pdist")
def pdist(x: Tensor, *, p: float = 2.0) -> Tensor:
    return torch.ops.aten._pdist_forward(x.float(), _order(p)).to(x.dtype)  # type: ignore[no-any-return]
