"""Elements written by index. Operators whose output GE defines as their input write into it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import Sizes, constant_kernel, kernel
from .checks import indices_within
from .index import places

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
    return _scattered(input, indices, updates, "amax")


@kernel("TensorScatterMin")
def tensor_scatter_min(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:  # noqa: A002
    return _scattered(input, indices, updates, "amin")


def _scattered(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Of rows of everything behind the places; the places are of the leading dimensions."""
    depth = indices.size(-1)
    leading = list(x.shape[:depth])
    where = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for axis, size in enumerate(leading):
        where = where * size + indices_within("indices", indices[..., axis].to(torch.int64), size)
    rows = x.reshape(math.prod(leading), -1)
    given = updates.reshape(where.numel(), -1)
    places = where.reshape(-1, 1).expand(given.shape)
    return torch.scatter_reduce(rows, 0, places, given, reduction).reshape(x.shape)


@kernel("ScatterNd")
def scatter_nd(indices: Tensor, x: Tensor, shape: Sizes) -> Tensor:
    blank = torch.zeros(list(shape.ints), dtype=x.dtype)
    return blank.index_put(tuple(indices.to(torch.int64).unbind(-1)), x, accumulate=True)


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
    where = tuple(place if isinstance(place, Tensor) else None for place in places(indexed_sizes.ints, indices))
    return torch.ops.aten.index_put_(x, where, value.to(x.dtype), accumulate)  # type: ignore[no-any-return]


@kernel("InplaceIndexAdd", may_alias=True)
def index_add(var: Tensor, indices: Tensor, updates: Tensor, alpha: Tensor | None = None, *, axis: int) -> Tensor:
    terms = updates if alpha is None else updates * alpha.to(updates.dtype)
    return var.index_add_(axis, indices, terms)


@constant_kernel("InplaceIndexAdd")
def index_add_times(var: Tensor, indices: Tensor, updates: Tensor, alpha: Sizes, *, axis: int) -> Tensor:
    # ATen's own operator rounds the product and the sum as one.
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
