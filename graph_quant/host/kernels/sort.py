"""Sorting, top-k and unique."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import Sizes, kernel


@kernel("Sort")
def sort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(x, dim=axis, descending=descending, stable=stable)
    return values, indices.to(torch.int32)


@kernel("TopKV2")
def top_k(
    x: Tensor,
    k: Sizes,
    *,
    sorted: bool = True,  # noqa: A002
    dim: int = -1,
    largest: bool = True,
) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(x, k.ints[0], dim, largest, sorted)
    return values, indices.to(torch.int32)


@kernel("UniqueWithCountsAndSorting")
def unique(
    x: Tensor,
    *,
    return_inverse: bool = False,
    return_counts: bool = False,
    sorted: bool = True,  # noqa: A002
) -> tuple[Tensor, Tensor, Tensor]:
    values, indices, counts = torch.ops.aten._unique2(x, sorted, return_inverse, return_counts)
    return values, indices, counts


@kernel("UniqueConsecutive")
def unique_consecutive(
    x: Tensor, *, return_idx: bool = False, return_counts: bool = False, axis: int = 1000
) -> tuple[Tensor, Tensor, Tensor]:
    dim = None if axis == 1000 else axis
    values, indices, counts = torch.ops.aten.unique_consecutive(x, return_idx, return_counts, dim)
    return values, indices, counts
