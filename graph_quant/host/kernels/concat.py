"""Concatenation and stacking."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import Sizes, kernel


def _concat(x: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate; scalars count as vectors of one element, which TorchAir relies on for counters."""
    return torch.cat([tensor if tensor.dim() else tensor.reshape(1) for tensor in x], axis)


@kernel("ConcatV2", flops=0, same=("x",), idle=("N",))
def concat(x: Sequence[Tensor], concat_dim: Sizes) -> Tensor:
    return _concat(x, concat_dim.ints[0])


@kernel("Concat", idle=("N",))
def concat_axis_first(concat_dim: Sizes, x: Sequence[Tensor]) -> Tensor:
    return _concat(x, concat_dim.ints[0])


@kernel("ConcatD", "ConcatV2D", flops=0, same=("x",), idle=("N",))
def concat_attribute(x: Sequence[Tensor], *, concat_dim: int) -> Tensor:
    return _concat(x, concat_dim)


@kernel("Pack", flops=0, same=("x",), idle=("N",))
def pack(x: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    return torch.stack(list(x), axis)
