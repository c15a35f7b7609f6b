"""Steps in half precision that the host computes in float32 and rounds once; ``half_products`` has the products."""

from __future__ import annotations

import torch
from torch import Tensor

HALF_DTYPES = (torch.float16, torch.bfloat16)


def upcast_half(x: Tensor) -> Tensor:
    """Return a half-precision tensor in float32, so that several steps are rounded once."""
    return x.float() if x.dtype in HALF_DTYPES else x


def add_scaled(x1: Tensor, x2: Tensor, alpha: Tensor) -> Tensor:
    """Return ``x1 + alpha * x2``, rounded once: ATen's own operator rounds twice where a vector is not full."""
    wide = upcast_half(x2)
    return torch.addcmul(upcast_half(x1), wide, alpha.to(wide.dtype)).to(x1.dtype)
