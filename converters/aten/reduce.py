"""Reductions that TorchAir has no converter for, or loses numbers in: maxima and minima, products, truth, variance."""

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
    """No axes mean all of them."""
    chosen = [dim] if isinstance(dim, int) else list(dim or ())
    return [axis % x.rank for axis in chosen] if chosen and x.rank else list(range(x.rank))


def _reduced(make: Callable[..., Tensor], x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return make(x, axes, keep_dims=keepdim) if x.rank else ge.Identity(x)


@converts(aten.amax.default)
def amax(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ReduceMax; of truth ReduceAny."""
    return _reduced(ge.ReduceAny if x.dtype == DataType.DT_BOOL else ge.ReduceMax, x, _axes(x, dim), keepdim)


@converts(aten.amin.default)
def amin(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ReduceMin; of truth ReduceAll."""
    return _reduced(ge.ReduceAll if x.dtype == DataType.DT_BOOL else ge.ReduceMin, x, _axes(x, dim), keepdim)


@converts(aten.sum.dim_IntList)
def total(
    x: Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    meta_outputs: Any = None,
) -> Tensor:
    """ReduceSum; TorchAir asks whether there are elements, also where that is known to the run alone."""
    if any(isinstance(size, int) and size == 0 for size in x.symsize):
        upstream = UPSTREAM[aten.sum.dim_IntList]
        return upstream(x, dim, keepdim, dtype=dtype, meta_outputs=meta_outputs._meta)  # type: ignore[no-any-return]
    numbers = in_type(meta_outputs.dtype, x)
    return ge.ReduceSum(numbers, list(dim) if dim else list(range(x.rank)), keep_dims=keepdim)


@converts(aten.any.default, aten.any.dim, aten.any.dims)
def any_of(
    x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, meta_outputs: Any = None
) -> Tensor:
    """ReduceAny, which takes truth alone; of uint8 ATen gives uint8. An empty list of axes is none here, not all."""
    axes = [] if isinstance(dim, Sequence) and not dim else _axes(x, dim)
    truth = in_type(DataType.DT_BOOL, x)
    found = ge.ReduceAny(truth, axes, keep_dims=keepdim) if axes else ge.Identity(truth)
    return found if meta_outputs.dtype == DataType.DT_BOOL else ge.Cast(found, dst_type=meta_outputs.dtype)


@converts(aten.prod.default, aten.prod.dim_int)
def prod(
    x: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,  # noqa: ARG001
    meta_outputs: Any = None,
) -> Tensor:
    """ReduceProd, in the type of the result; of everything along one axis, so that the order is ATen's."""
    factors = in_type(meta_outputs.dtype, x)
    if dim is None and x.rank > 1:
        factors = ge.Reshape(factors, [-1])
    if not x.rank:
        return ge.Identity(factors)
    return ge.ReduceProd(factors, [0 if dim is None else dim % x.rank], keep_dims=keepdim)


@converts(aten.var.correction)
def var(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    meta_outputs: Any = None,
) -> Tensor:
    """The squares of what elements differ by from their mean, divided by their number less the correction."""
    return _spread(x, dim, correction, keepdim, meta_outputs, root=False)


@converts(aten.std.correction)
def std(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    meta_outputs: Any = None,
) -> Tensor:
    """The root of the variance; TorchAir takes integers for a correction alone, and rounds the mean first."""
    return _spread(x, dim, correction, keepdim, meta_outputs, root=True)


def _spread(
    x: Tensor,
    dim: Sequence[int] | None,
    correction: float | None,
    keepdim: bool,
    meta_outputs: Any,
    root: bool,
) -> Tensor:
    """ReduceMean, and ReduceStdV2Update around it; a correction that is no integer becomes a factor."""
    given = 1 if correction is None else correction
    whole = int(given) if float(given).is_integer() else 0
    inner = taken_in("ReduceStdV2Update", x.dtype)
    numbers = in_type(inner, x)
    axes = _axes(x, dim)
    if not x.rank:
        numbers, axes, keepdim = ge.Reshape(numbers, [1]), [0], False
    mean = ge.ReduceMean(numbers, axes, keep_dims=True)
    spread = ge.ReduceStdV2Update(
        numbers,
        ge.BroadcastTo(mean, shape_of(x)) if x.rank else mean,
        dim=axes,
        if_std=root,
        unbiased=whole != 0,
        keepdim=keepdim,
        correction=whole,
    )
    if whole != given:
        factor = _factor(x, axes, float(given))
        spread = ge.Mul(spread, in_type(inner, math.sqrt(factor) if root else factor))
    return spread if inner == meta_outputs.dtype else ge.Cast(spread, dst_type=meta_outputs.dtype)


def _factor(x: Tensor, axes: list[int], correction: float) -> float:
    """What makes of a mean of squares one that is corrected."""
    sizes = [x.symsize[axis] for axis in axes] if x.rank else [1]
    if not is_static(sizes):
        raise NotImplementedError(
            f"var: with correction {correction}, which is no integer, reduced sizes must be known: "
            "use an integer, or dynamic=False"
        )
    count = math.prod(sizes)
    return count / (count - correction) if count > correction else math.inf
