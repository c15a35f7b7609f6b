"""Several tensors into one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge.kernels import kernel
from ...ge.sizes import Sizes


@kernel("ConcatV2", flops=0, same=("x",))
def concat(x: Sequence[Tensor], concat_dim: Sizes) -> Tensor:
    return torch.cat(list(x), concat_dim.ints[0])


@kernel("Concat")
def concat_axis_first(concat_dim: Sizes, x: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(x), concat_dim.ints[0])


@kernel("ConcatD", "ConcatV2D", flops=0, same=("x",))
def concat_attribute(x: Sequence[Tensor], *, concat_dim: int) -> Tensor:
    return torch.cat(list(x), concat_dim)


@kernel("Pack", flops=0, same=("x",))
def pack(x: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    return torch.stack(list(x), axis)
