"""Reductions that TorchAir lacks or computes inexactly: amax, amin, sum, any, prod, var and std."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.lowering import converts, in_type, is_static, shape_of, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


def _axes(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    """Normalised axes; all of them where none is named."""
    chosen = [dim] if isinstance(dim, int) else list(dim or ())
    return [axis % x.rank for axis in chosen] if chosen and x.rank else list(range(x.rank))


def _reduced(make: Callable[..., Tensor], x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return make(x, axes, keep_dims=keepdim) if x.rank else ge.Identity(x)


@converts(aten.amax.default)
def amax(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ReduceMax; ReduceAny for bool."""
    return _reduced(ge.ReduceAny if x.dtype == DataType.DT_BOOL else ge.ReduceMax, x, _axes(x, dim), keepdim)


@converts(aten.amin.default)
def amin(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ReduceMin; ReduceAll for bool."""
    return _reduced(ge.ReduceAll if x.dtype == DataType.DT_BOOL else ge.ReduceMin, x, _axes(x, dim), keepdim)


@converts(aten.sum.dim_IntList)
def sum_dims(
    x: Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    meta_outputs: Any = None,
) -> Tensor:
    """ReduceSum. TorchAir tests whether the tensor is empty, which fails for dynamic sizes."""
    if any(isinstance(size, int) and size == 0 for size in x.symsize):
        upstream = UPSTREAM[aten.sum.dim_IntList]
        return upstream(x, dim, keepdim, dtype=dtype, meta_outputs=meta_outputs._meta)  # type: ignore[no-any-return]
    numbers = in_type(meta_outputs.dtype, x)
    return ge.ReduceSum(numbers, list(dim) if dim else list(range(x.rank)), keep_dims=keepdim)


@converts(aten.any.default, aten.any.dim, aten.any.dims)
def any_of(
    x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, meta_outputs: Any = None
) -> Tensor:
    """ReduceAny, which supports bool alone; ATen returns uint8 for uint8. An empty list of axes means none, not all."""
    axes = [] if isinstance(dim, Sequence) and not dim else _axes(x, dim)
    mask = in_type(DataType.DT_BOOL, x)
    reduced = ge.ReduceAny(mask, axes, keep_dims=keepdim) if axes else ge.Identity(mask)
    return reduced if meta_outputs.dtype == DataType.DT_BOOL else ge.Cast(reduced, dst_type=meta_outputs.dtype)


@converts(aten.prod.default, aten.prod.dim_int)
def prod(
    x: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,  # noqa: ARG001
    meta_outputs: Any = None,
) -> Tensor:
    """ReduceProd in the dtype of the result; a full product is flattened first, for the order of ATen."""
    values = in_type(meta_outputs.dtype, x)
    if dim is None and x.rank > 1:
        values = ge.Reshape(values, [-1])
    if not x.rank:
        return ge.Identity(values)
    return ge.ReduceProd(values, [0 if dim is None else dim % x.rank], keep_dims=keepdim)


@converts(aten.var.correction)
def var(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    meta_outputs: Any = None,
) -> Tensor:
    """The variance with a correction of the number of elements."""
    return _variance(x, dim, correction, keepdim, meta_outputs, root=False)


@converts(aten.std.correction)
def std(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    meta_outputs: Any = None,
) -> Tensor:
    """The standard deviation. TorchAir supports integer corrections alone, and rounds the mean first."""
    return _variance(x, dim, correction, keepdim, meta_outputs, root=True)


def _variance(
    x: Tensor,
    dim: Sequence[int] | None,
    correction: float | None,
    keepdim: bool,
    meta_outputs: Any,
    root: bool,
) -> Tensor:
    """ReduceMean and ReduceStdV2Update; for a fractional correction the result is rescaled."""
    requested = 1 if correction is None else correction
    whole = int(requested) if float(requested).is_integer() else 0
    inner = taken_in("ReduceStdV2Update", x.dtype)
    numbers = in_type(inner, x)
    axes = _axes(x, dim)
    if not x.rank:
        numbers, axes, keepdim = ge.Reshape(numbers, [1]), [0], False
    mean = ge.ReduceMean(numbers, axes, keep_dims=True)
    variance = ge.ReduceStdV2Update(
        numbers,
        ge.BroadcastTo(mean, shape_of(x)) if x.rank else mean,
        dim=axes,
        if_std=root,
        unbiased=whole != 0,
        keepdim=keepdim,
        correction=whole,
    )
    if whole != requested:
        scale = _correction_scale(x, axes, float(requested))
        variance = ge.Mul(variance, in_type(inner, math.sqrt(scale) if root else scale))
    return variance if inner == meta_outputs.dtype else ge.Cast(variance, dst_type=meta_outputs.dtype)


def _correction_scale(x: Tensor, axes: list[int], correction: float) -> float:
    """The ratio of the corrected to the uncorrected variance."""
    sizes = [x.symsize[axis] for axis in axes] if x.rank else [1]
    if not is_static(sizes):
        raise NotImplementedError(
            f"var: with correction {correction}, which is no integer, reduced sizes must be known: "
            "use an integer, or dynamic=False"
        )
    count = math.prod(sizes)
    return count / (count - correction) if count > correction else math.inf
