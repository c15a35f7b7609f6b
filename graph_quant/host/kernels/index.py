"""Gather, indexing, search and embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import Sizes, from_attr, kernel
from .checks import check_indices


@kernel("Gather", flops=0, idle=("validate_indices", "is_preprocessed"))
def gather(x: Tensor, indices: Tensor, *, batch_dims: int = 0, negative_index_support: bool = False) -> Tensor:
    return _gather(x, indices, batch_dims, batch_dims, negative_index_support)


@kernel("GatherV2", flops=0, idle=("is_preprocessed",))
def gather_axis(
    x: Tensor, indices: Tensor, axis: Sizes, *, batch_dims: int = 0, negative_index_support: bool = False
) -> Tensor:
    return _gather(x, indices, axis.ints[0], batch_dims, negative_index_support)


def _gather(x: Tensor, indices: Tensor, axis: int, batch_dims: int, negative: bool) -> Tensor:
    axis = axis % max(x.dim(), 1)
    picks = indices.to(torch.int64)
    if negative:
        picks = torch.where(picks < 0, picks + x.size(axis), picks)
    if batch_dims == 0:
        flat = torch.index_select(x, axis, picks.reshape(-1))
        return flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])
    batches = [torch.arange(x.size(dim)).reshape([-1] + [1] * (picks.dim() - dim - 1)) for dim in range(batch_dims)]
    between = [slice(None)] * (axis - batch_dims)
    if between:
        raise NotImplementedError(f"gather with batch_dims {batch_dims} and axis {axis}")
    return x[(*batches, picks)]


@kernel("GatherElements")
def gather_elements(x: Tensor, index: Tensor, *, dim: int = 0) -> Tensor:
    return torch.gather(x, dim, index.to(torch.int64))


@kernel("GatherNd", idle=("negative_index_support",))
def gather_nd(x: Tensor, indices: Tensor) -> Tensor:
    return x[tuple(indices.to(torch.int64).unbind(-1))]


def index_tuple(mask: Sequence[int], indices: Sequence[Tensor]) -> tuple[Tensor | slice, ...]:
    """Return an index expression: the next of ``indices`` where the mask is set, a full slice otherwise."""
    remaining = iter(indices)
    return tuple(next(remaining) if chosen else slice(None) for chosen in mask)


@kernel("Index", may_alias=True)
def index(x: Tensor, indexed_sizes: Sizes, indexed_strides: Sizes, indices: Sequence[Tensor]) -> Tensor:  # noqa: ARG001
    return x[index_tuple(indexed_sizes.ints, indices)]


@kernel("IndexByTensor", may_alias=True)
def index_by_tensor(x: Tensor, indices: Sequence[Tensor], *, indices_mask: Sequence[int] = ()) -> Tensor:
    return x[index_tuple(indices_mask, indices)]


@kernel("MaskedSelect")
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    return torch.masked_select(x, mask.bool())


@kernel("NonZero")
def non_zero(x: Tensor, *, transpose: bool = False, dtype: int = 9) -> Tensor:
    indices = torch.nonzero(x).to(from_attr(dtype))
    return indices.t().contiguous() if transpose else indices


@kernel("Where")
def where(x: Tensor) -> Tensor:
    return torch.nonzero(x)


@kernel("SearchSorted")
def search_sorted(
    sorted_sequence: Tensor, values: Tensor, sorter: Tensor | None = None, *, dtype: int = 9, right: bool = False
) -> Tensor:
    positions = torch.searchsorted(sorted_sequence, values, right=right, sorter=sorter)
    return positions.to(from_attr(dtype))


@kernel("EmbeddingDenseGrad", "EmbeddingDenseGradV2")
def embedding_dense_grad(
    grad: Tensor, indices: Tensor, *, num_weights: int, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Tensor:
    indices = check_indices("indices", indices, num_weights, padding_idx)
    return torch.ops.aten.embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)  # type: ignore[no-any-return]


_BAGS = {"sum": 0, "mean": 1, "max": 2}


@kernel("EmbeddingBag")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
    *,
    mode: str = "mean",
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    starts = torch.zeros(1, dtype=indices.dtype) if offsets is None else offsets
    rows = check_indices("indices", indices, weight.size(0))
    return torch.ops.aten._embedding_bag(  # type: ignore[no-any-return]
        weight,
        rows,
        starts,
        scale_grad_by_freq,
        _BAGS[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
