"""Elements written by index: forms of scatter_reduce, and masked_scatter, which TorchAir lowers none of.

ScatterElements adds and multiplies. Maxima and minima are TensorScatterMax and TensorScatterMin, which take full
coordinates. Updates have the shape of their indices in GE; ATen takes larger ones.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type, is_static, run_time_shape, shape_of, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_FLOATS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_BF16, DataType.DT_DOUBLE)
_IDENTITIES: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1, "amax": -float("inf"), "amin": float("inf")}


@converts(aten.scatter.src)
def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ScatterElements."""
    return _elements(x, dim, index, src)


@converts(aten.scatter_add.default)
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ScatterElements that adds."""
    return _elements(x, dim, index, src, "add")


def _elements(x: Tensor, dim: int, index: Tensor, src: Tensor, reduction: str = "none") -> Tensor:
    return ge.ScatterElements(x, index, _matching(src, index), axis=dim % x.rank, reduction=reduction)


def _matching(src: Tensor, index: Tensor) -> Tensor:
    """The updates that have an index: ATen ignores the rest."""
    if str(src.symsize) == str(index.symsize) or not src.rank:
        return src
    return ge.Slice(src, [0] * src.rank, shape_of(index))


@converts(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """ScatterElements or TensorScatterMax/Min; without include_self the targets are first set to the identity."""
    return _reduced(x, dim % x.rank, index, _matching(src, index), reduce, include_self, x.dtype)


def _reduced(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool, dtype: Any) -> Tensor:
    if not include_self:
        neutral = ge.Fill(shape_of(index), in_type(dtype, _identity(reduce, dtype)))
        start = ge.ScatterElements(x, index, neutral, axis=dim)
    else:
        start = x
    if reduce in ("amax", "amin"):
        make = ge.TensorScatterMax if reduce == "amax" else ge.TensorScatterMin
        return make(start, _coordinates(index, dim), src)
    if reduce == "prod":
        return ge.ScatterElements(start, index, src, axis=dim, reduction="mul")
    total = ge.ScatterElements(start, index, src, axis=dim, reduction="add")
    return total if reduce == "sum" else _divided(total, dim, index, include_self, dtype)


def _identity(reduce: str, dtype: Any) -> Any:
    value = _IDENTITIES[reduce]
    limits = {
        DataType.DT_INT8: torch.int8, DataType.DT_UINT8: torch.uint8, DataType.DT_INT16: torch.int16,
        DataType.DT_INT32: torch.int32, DataType.DT_INT64: torch.int64,
    }  # fmt: skip
    if reduce not in ("amax", "amin") or dtype not in limits:
        return value
    info = torch.iinfo(limits[dtype])
    return info.min if reduce == "amax" else info.max


def _divided(total: Tensor, dim: int, index: Tensor, include_self: bool, dtype: Any) -> Tensor:
    """Divide sums by the number of their terms; integers are rounded down, as in ATen."""
    one = ge.Const(1, dtype=dtype)
    start = ge.Fill(run_time_shape(total), one if include_self else ge.Const(0, dtype=dtype))
    counts = ge.ScatterElements(start, index, ge.Fill(shape_of(index), one), axis=dim, reduction="add")
    return (ge.RealDiv if dtype in _FLOATS else ge.FloorDiv)(total, ge.Maximum(counts, one))  # type: ignore[no-any-return]


def _coordinates(index: Tensor, dim: int) -> Tensor:
    """Full coordinates from indices along one dimension."""
    rank, coordinates = index.rank, []
    for axis in range(rank):
        if axis == dim:
            coordinates.append(in_type(DataType.DT_INT64, index))
            continue
        size = _size(index, axis)
        along = ge.Range(*in_type(DataType.DT_INT64, 0, size, 1))
        column = [-1 if position == axis else 1 for position in range(rank)]
        coordinates.append(ge.BroadcastTo(ge.Reshape(along, column), shape_of(index)))
    return ge.Pack(coordinates, N=rank, axis=rank)


def _size(x: Tensor, axis: int) -> Any:
    return x.symsize[axis] if is_static(x.symsize) else ge.Gather(run_time_shape(x), axis)


@decomposes(aten.masked_scatter.default)
def broadcast_masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> Any:
    """Broadcast the tensor and its mask to a common shape where their shapes differ."""
    if str(x.shape) == str(mask.shape):
        return NotImplemented
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    return x.expand(shape).masked_scatter(mask.expand(shape), source)


@converts(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """MaskedScatter of a tensor and a mask of its shape."""
    inner = taken_in("MaskedScatter", x.dtype)
    filled = ge.MaskedScatter(in_type(inner, x), mask, in_type(inner, source))
    return filled if inner == x.dtype else ge.Cast(filled, dst_type=x.dtype)
