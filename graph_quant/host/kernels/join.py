"""Several tensors into one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge.kernels import kernel
from ...ge.sizes import HostValue


@kernel("ConcatV2")
def concat(x: Sequence[Tensor], concat_dim: HostValue) -> Tensor:
    return torch.cat(list(x), concat_dim.ints[0])


@kernel("Concat")
def concat_axis_first(concat_dim: HostValue, x: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(x), concat_dim.ints[0])


@kernel("ConcatD", "ConcatV2D")
def concat_attribute(x: Sequence[Tensor], *, concat_dim: int) -> Tensor:
    return torch.cat(list(x), concat_dim)


@kernel("Pack")
def pack(x: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    return torch.stack(list(x), axis)
