"""Products in half precision that the host computes in float32 and rounds once, as the cube unit does.

Small products use PyTorch's CPU kernels. Many CPUs have no instructions for half precision and take minutes for what
float32 does in a second, so that large products are computed in float32, by eager execution and by graphs alike.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

HALF_DTYPES = (torch.float16, torch.bfloat16)
# The number of multiplications that PyTorch does in half precision in about 50 ms without such instructions.
MAX_HALF_PRODUCT = 1 << 24


def upcast_half(x: Tensor) -> Tensor:
    """Return a half-precision tensor in float32, so that several steps are rounded once."""
    return x.float() if x.dtype in HALF_DTYPES else x


def add_scaled(x1: Tensor, x2: Tensor, alpha: Tensor) -> Tensor:
    """Return ``x1 + alpha * x2``, rounded once: ATen's own operator rounds twice where a vector is not full."""
    wide = upcast_half(x2)
    return torch.addcmul(upcast_half(x1), wide, alpha.to(wide.dtype)).to(x1.dtype)


def is_large_half_product(x1: Tensor, x2: Tensor) -> bool:
    """Whether ``x1 @ x2`` is a half-precision product to compute in float32. Symbolic sizes count as large."""
    if x1.dtype not in HALF_DTYPES:
        return False
    sizes = (*x1.shape, x2.size(-1) if x2.dim() > 1 else 1)
    return not all(isinstance(size, int) for size in sizes) or math.prod(sizes) > MAX_HALF_PRODUCT
