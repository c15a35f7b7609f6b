"""Maxima and minima along an axis, and their indices.

ArgMaxWithValue and ArgMinWithValue support floats alone. TorchAir passes them integers, and rounds those to float32
with keepdim; here integers are lowered to ArgMaxV2 and ArgMin.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_FLOATS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_BF16)
_LARGEST = (ge.ArgMaxV2, ge.ReduceMax, ge.ArgMaxWithValue)
_SMALLEST = (ge.ArgMin, ge.ReduceMin, ge.ArgMinWithValue)


@converts(aten.max.dim)
def max_dim(x: Tensor, dim: int, keepdim: bool = False, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """The largest elements and their indices."""
    return _values_and_indices(x, dim, keepdim, _LARGEST)


@converts(aten.min.dim)
def min_dim(x: Tensor, dim: int, keepdim: bool = False, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """The smallest elements and their indices."""
    return _values_and_indices(x, dim, keepdim, _SMALLEST)


def _values_and_indices(x: Tensor, dim: int, keepdim: bool, nodes: Any) -> tuple[Tensor, Tensor]:
    arg, reduce, with_value = nodes
    if not x.rank:
        return ge.Identity(x), ge.Const(0, dtype=DataType.DT_INT64)
    axis = dim % x.rank
    if x.dtype in _FLOATS:
        inner = taken_in(with_value.__name__, x.dtype)
        indices, values = with_value(in_type(inner, x), dimension=axis, keep_dims=keepdim)
        values = values if inner == x.dtype else ge.Cast(values, dst_type=x.dtype)
        return values, ge.Cast(indices, dst_type=DataType.DT_INT64)
    numbers = _numbers(x)
    indices, values = arg(numbers, axis), reduce(numbers, [axis], keep_dims=keepdim)
    values = ge.Cast(values, dst_type=x.dtype) if x.dtype == DataType.DT_BOOL else values
    return values, ge.Unsqueeze(indices, axes=[axis]) if keepdim else indices


def _numbers(x: Tensor) -> Tensor:
    return in_type(DataType.DT_INT32, x) if x.dtype == DataType.DT_BOOL else x  # type: ignore[no-any-return]


@converts(aten.argmax.default)
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """The indices of the largest elements."""
    return _indices(x, dim, keepdim, ge.ArgMaxV2)


@converts(aten.argmin.default)
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """The indices of the smallest elements."""
    return _indices(x, dim, keepdim, ge.ArgMin)


def _indices(x: Tensor, dim: int | None, keepdim: bool, arg: Any) -> Tensor:
    numbers, rank = _numbers(x), x.rank
    if dim is None or not rank:
        indices = arg(ge.Reshape(numbers, [-1]), 0)
        return ge.Unsqueeze(indices, axes=list(range(rank))) if keepdim and rank else indices
    indices = arg(numbers, dim % rank)
    return ge.Unsqueeze(indices, axes=[dim % rank]) if keepdim else indices
