"""Scatter, index_put and histograms. Operators whose output GE defines as their input write in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import Sizes, constant_kernel, kernel
from .checks import check_indices
from .index import index_tuple

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@kernel("ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    where = indices.to(torch.int64)
    where = torch.where(where < 0, where + data.size(axis), where)
    if reduction == "none":
        return torch.scatter(data, axis, where, updates)
    return torch.scatter_reduce(data, axis, where, updates, _REDUCTIONS[reduction], include_self=True)


@kernel("ScatterUpdate", may_alias=True, idle=("use_locking",))
def scatter_update(var: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return var.index_copy_(0, indices.to(torch.int64).reshape(-1), updates.reshape(-1, *var.shape[1:]))


@kernel("TensorScatterUpdate")
def tensor_scatter_update(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return x.index_put(tuple(indices.to(torch.int64).unbind(-1)), updates)


@kernel("TensorScatterMax")
def tensor_scatter_max(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:  # noqa: A002
    return _scatter_reduce(input, indices, updates, "amax")


@kernel("TensorScatterMin")
def tensor_scatter_min(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:  # noqa: A002
    return _scatter_reduce(input, indices, updates, "amin")


def _scatter_reduce(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Reduce updates into the slices of ``x`` that indices of its leading dimensions select."""
    depth = indices.size(-1)
    leading = list(x.shape[:depth])
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for axis, size in enumerate(leading):
        flat = flat * size + check_indices("indices", indices[..., axis].to(torch.int64), size)
    rows = x.reshape(math.prod(leading), -1)
    values = updates.reshape(flat.numel(), -1)
    targets = flat.reshape(-1, 1).expand(values.shape)
    return torch.scatter_reduce(rows, 0, targets, values, reduction).reshape(x.shape)


@kernel("ScatterNd")
def scatter_nd(indices: Tensor, x: Tensor, shape: Sizes) -> Tensor:
    zeros = torch.zeros(list(shape.ints), dtype=x.dtype)
    return zeros.index_put(tuple(indices.to(torch.int64).unbind(-1)), x, accumulate=True)


@kernel("IndexPutV2", may_alias=True)
def index_put(
    x: Tensor,
    value: Tensor,
    indexed_sizes: Sizes,
    indexed_strides: Sizes,  # noqa: ARG001
    indices: Sequence[Tensor],
    *,
    accumulate: bool = False,
) -> Tensor:
    where = tuple(index if isinstance(index, Tensor) else None for index in index_tuple(indexed_sizes.ints, indices))
    return torch.ops.aten.index_put_(x, where, value.to(x.dtype), accumulate)  # type: ignore[no-any-return]


@kernel("InplaceIndexAdd", may_alias=True)
def index_add(var: Tensor, indices: Tensor, updates: Tensor, alpha: Tensor | None = None, *, axis: int) -> Tensor:
    terms = updates if alpha is None else updates * alpha.to(updates.dtype)
    return var.index_add_(axis, indices, terms)


@constant_kernel("InplaceIndexAdd")
def index_add_times(var: Tensor, indices: Tensor, updates: Tensor, alpha: Sizes, *, axis: int) -> Tensor:
    # ATen's operator rounds product and sum once, as a fused multiply-add.
    return var.index_add_(axis, indices, updates, alpha=alpha.scalar)


@kernel("MaskedScatter")
def masked_scatter(x: Tensor, mask: Tensor, updates: Tensor) -> Tensor:
    return torch.masked_scatter(x, mask.bool(), updates)


@kernel("Bincount")
def bincount(array: Tensor, size: Sizes, weights: Tensor) -> Tensor:
    bins = torch.zeros(size.ints[0], dtype=weights.dtype if weights.numel() else torch.int32)
    counted = weights if weights.numel() else torch.ones(array.numel(), dtype=torch.int32)
    return bins.index_add(0, array.reshape(-1).to(torch.int64), counted.reshape(-1))


@kernel("Histogram")
def histogram(x: Tensor, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:  # noqa: A002
    if x.is_floating_point():
        return torch.histc(x.float(), bins, min, max)
    return torch.histc(x.double(), bins, min, max).to(torch.int32)
