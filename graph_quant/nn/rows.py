"""Reshaping between inputs of any rank and the matrices that the operators take."""

from __future__ import annotations

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def as_rows(x: Tensor) -> Tensor:
    """Return ``x`` (…, k) as a matrix."""
    return x.reshape(-1, x.size(-1))


def like_input(y: Tensor, x: Tensor) -> Tensor:
    """Return ``y`` with the leading dimensions of ``x``."""
    return y.view(*x.shape[:-1], y.size(-1))


def check_half(module: str, argument: str, dtype: torch.dtype) -> torch.dtype:
    """Return ``dtype``; raise if it is not float16 or bfloat16."""
    if dtype not in HALVES:
        raise TypeError(f"{module}: {argument} must be torch.float16 or torch.bfloat16, got {dtype}")
    return dtype
