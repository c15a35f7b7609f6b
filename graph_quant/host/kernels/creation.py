"""Tensor creation: fill, range, eye, one-hot."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import Sizes, from_attr, kernel


@kernel("Fill", flops=0)
def fill(dims: Sizes, value: Tensor) -> Tensor:
    return value.reshape(()).expand(list(dims.ints)).clone(memory_format=torch.contiguous_format)


@kernel("ZerosLike")
def zeros_like(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=x.dtype)


@kernel("OnesLike")
def ones_like(x: Tensor) -> Tensor:
    return torch.ones(x.shape, dtype=x.dtype)


@kernel("Empty")
def empty(shape: Sizes, *, dtype: int, init: bool = False) -> Tensor:  # noqa: ARG001
    """Return zeros even where GE leaves memory uninitialised: host results are deterministic."""
    return torch.zeros(list(shape.ints), dtype=from_attr(dtype))


@kernel("Range")
def make_range(start: Sizes, limit: Sizes, delta: Sizes) -> Tensor:
    return torch.arange(start.scalar, limit.scalar, delta.scalar, dtype=start.dtype)


@kernel("LinSpace")
def lin_space(start: Sizes, stop: Sizes, num: Sizes) -> Tensor:
    return torch.linspace(start.scalar, stop.scalar, num.ints[0], dtype=start.dtype)


@kernel("Eye")
def eye(*, num_rows: int, num_columns: int = 0, dtype: int = 0) -> Tensor:
    return torch.eye(num_rows, num_columns or num_rows, dtype=from_attr(dtype))


@kernel("OneHot")
def one_hot(x: Tensor, depth: Sizes, on_value: Tensor, off_value: Tensor, *, axis: int = -1) -> Tensor:
    classes = torch.arange(depth.ints[0], dtype=x.dtype)
    is_class = x.unsqueeze(-1) == classes
    result = torch.where(is_class, on_value, off_value)
    return result if axis == -1 else result.movedim(-1, axis)
