"""Several tensors into one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import Sizes, kernel


def _joined(x: Sequence[Tensor], axis: int) -> Tensor:
    """GE joins scalars as if they were vectors of one element; TorchAir relies on it for counters."""
    return torch.cat([each if each.dim() else each.reshape(1) for each in x], axis)


@kernel("ConcatV2", flops=0, same=("x",), idle=("N",))
def concat(x: Sequence[Tensor], concat_dim: Sizes) -> Tensor:
    return _joined(x, concat_dim.ints[0])


@kernel("Concat", idle=("N",))
def concat_axis_first(concat_dim: Sizes, x: Sequence[Tensor]) -> Tensor:
    return _joined(x, concat_dim.ints[0])


@kernel("ConcatD", "ConcatV2D", flops=0, same=("x",), idle=("N",))
def concat_attribute(x: Sequence[Tensor], *, concat_dim: int) -> Tensor:
    return _joined(x, concat_dim)


@kernel("Pack", flops=0, same=("x",), idle=("N",))
def pack(x: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    return torch.stack(list(x), axis)
