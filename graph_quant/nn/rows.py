"""Linear modules take inputs of any rank; the operators here take matrices."""

from __future__ import annotations

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def as_rows(x: Tensor) -> Tensor:
    """``x`` (…, k) as a matrix."""
    return x.reshape(-1, x.size(-1))


def like_input(y: Tensor, x: Tensor) -> Tensor:
    """The rows of ``y`` in the leading dimensions of ``x``."""
    return y.view(*x.shape[:-1], y.size(-1))


def check_half(module: str, argument: str, dtype: torch.dtype) -> torch.dtype:
    """Refuses what the kernels do not compute."""
    if dtype not in HALVES:
        raise TypeError(f"{module}: {argument} must be torch.float16 or torch.bfloat16, got {dtype}")
    return dtype
