"""Tensors without dimensions where operators take a dimension: they are computed as tensors of one element."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes

aten = torch.ops.aten


@decomposes(aten.sort.default)
def sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    """Sort of a scalar."""
    if x.dim():
        return NotImplemented
    values, indices = aten.sort.default(x.reshape(1), dim, descending)
    return values.reshape(()), indices.reshape(())


@decomposes(aten.take.default)
def take(x: torch.Tensor, index: torch.Tensor) -> Any:
    """Index of all elements. PyTorch's decomposition reads an index without dimensions as a number."""
    return aten.index.Tensor(x.reshape(-1), [index])


@decomposes(aten.index_add.default)
def index_add(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: Any = 1) -> Any:
    """index_add of a scalar."""
    if x.dim():
        return NotImplemented
    return aten.index_add.default(x.reshape(1), dim, index.reshape(-1), source.reshape(-1), alpha=alpha).reshape(())


@decomposes(aten.scatter.value)
def scatter_value(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> Any:
    """Scatter of a number into a scalar."""
    return NotImplemented if x.dim() else _scatter(aten.scatter.value, x, dim, index, value)


@decomposes(aten.scatter.src)
def scatter_src(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor) -> Any:
    """Scatter into a scalar."""
    return NotImplemented if x.dim() else _scatter(aten.scatter.src, x, dim, index, src.reshape(-1))


@decomposes(aten.scatter_add.default)
def scatter_add(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor) -> Any:
    """scatter_add into a scalar."""
    return NotImplemented if x.dim() else _scatter(aten.scatter_add.default, x, dim, index, src.reshape(-1))


@decomposes(aten.scatter_reduce.two)
def scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """scatter_reduce into a scalar."""
    if x.dim():
        return NotImplemented
    return _scatter(aten.scatter_reduce.two, x, dim, index, src.reshape(-1), reduce, include_self=include_self)


def _scatter(operator: Any, x: torch.Tensor, dim: int, index: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return operator(x.reshape(1), dim, index.reshape(-1), *args, **kwargs).reshape(())


@decomposes(aten.logsumexp.default)
def logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> Any:
    """The logarithm of an empty sum is minus infinity, and that of a sum of one element is the element."""
    if not x.dim():
        return aten.logsumexp.default(x.reshape(1), [0]).reshape(())
    axes = {axis % x.dim() for axis in dim} if dim else set(range(x.dim()))
    if not any(isinstance(x.size(axis), int) and x.size(axis) == 0 for axis in axes):
        return NotImplemented
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else torch.get_default_dtype()
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes]
    return torch.full(shape, -torch.inf, dtype=dtype, device=x.device)
