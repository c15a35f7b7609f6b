"""Comparisons and selection."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import kernel


@kernel("Equal", same=("x1", "x2"))
def equal(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.eq(x1, x2)


@kernel("NotEqual", same=("x1", "x2"))
def not_equal(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.ne(x1, x2)


@kernel("Greater", same=("x1", "x2"))
def greater(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.gt(x1, x2)


@kernel("GreaterEqual", same=("x1", "x2"))
def greater_equal(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.ge(x1, x2)


@kernel("Less", same=("x1", "x2"))
def less(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.lt(x1, x2)


@kernel("LessEqual", same=("x1", "x2"))
def less_equal(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.le(x1, x2)


@kernel("SelectV2")
def select(condition: Tensor, then: Tensor, else_: Tensor) -> Tensor:
    return torch.where(condition.bool(), then, else_)


@kernel("Select")
def select_same_shape(condition: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    return torch.where(condition.bool(), x1, x2)


@kernel("MaskedFill")
def masked_fill(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.where(mask.bool(), value.to(x.dtype), x)


@kernel("IsClose")
def is_close(x1: Tensor, x2: Tensor, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return torch.isclose(x1, x2, rtol, atol, equal_nan)
