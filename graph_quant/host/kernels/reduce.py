"""Reductions and cumulative reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import REDUCTION, Sizes, from_attr, kernel, list_of_sizes


def _axes(x: Tensor, axes: Sizes) -> list[int]:
    """Return the axes; none means all of them."""
    return list(axes.ints) or list(range(x.dim()))


@kernel("ReduceSum", flops=REDUCTION)
def reduce_sum(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.sum(x.contiguous(), _axes(x, axes), keep_dims, dtype=x.dtype)


@kernel("ReduceMean", flops=REDUCTION)
def reduce_mean(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.mean(x.contiguous(), _axes(x, axes), keep_dims)


@kernel("ReduceProd", flops=REDUCTION)
def reduce_prod(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    product = x
    for axis in sorted((dim % max(x.dim(), 1) for dim in _axes(x, axes)), reverse=True):
        product = torch.prod(product, axis, keep_dims, dtype=x.dtype)
    return x.clone() if product is x else product


@kernel("ReduceProdD", flops=REDUCTION)
def reduce_prod_d(x: Tensor, *, axes: Sequence[int], keep_dims: bool = False) -> Tensor:
    return reduce_prod(x, list_of_sizes(axes), keep_dims=keep_dims)


@kernel("ReduceMax", flops=REDUCTION)
def reduce_max(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.amax(x, _axes(x, axes), keep_dims)


@kernel("ReduceMin", flops=REDUCTION)
def reduce_min(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.amin(x, _axes(x, axes), keep_dims)


@kernel("ReduceAll", flops=REDUCTION)
def reduce_all(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.all(x, _axes(x, axes), keep_dims) if x.dim() else x != 0


@kernel("ReduceAny", flops=REDUCTION)
def reduce_any(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.any(x, _axes(x, axes), keep_dims) if x.dim() else x != 0


@kernel("ReduceLogSumExp", flops=REDUCTION)
def reduce_log_sum_exp(x: Tensor, axes: Sizes, *, keep_dims: bool = False) -> Tensor:
    return torch.logsumexp(x.contiguous(), _axes(x, axes), keep_dims)


@kernel("ReduceStdWithMean", flops=REDUCTION)
def reduce_std_with_mean(
    x: Tensor,
    mean: Tensor,
    *,
    dim: Sequence[int] = (),
    keepdim: bool = False,
    invert: bool = False,
    epsilon: float = 0.001,
    correction: int = 1,
    unbiased: bool = True,
) -> Tensor:
    axes = list(dim) or list(range(x.dim()))
    count = math.prod(x.size(axis) for axis in axes)
    squares = torch.sum(torch.square(x - mean), axes, keepdim)
    variance = squares / (count - correction if unbiased else count)
    return torch.rsqrt(variance + epsilon) if invert else torch.sqrt(variance)


@kernel("ReduceStdV2Update", flops=REDUCTION)
def reduce_var_around_mean(
    x: Tensor,
    mean: Tensor,
    *,
    dim: Sequence[int],
    if_std: bool = False,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: int = 1,
) -> Tensor:
    """Compute in float64, and correct for the rounding of the mean: as exact as ATen's Welford variance."""
    axes = list(dim) or list(range(x.dim()))
    deviation = x.double() - mean.double()
    count = math.prod(x.size(axis) for axis in axes)
    squares = deviation.square().sum(axes, keepdim) - deviation.sum(axes, keepdim).square() / count
    freedom = max(count - (correction if unbiased else 0), 0)
    variance = squares / freedom
    return (variance.sqrt() if if_std else variance).to(x.dtype)


_INFINITE_NORM = 2147483647.0


@kernel("LpNormV2", only={"epsilon": (0,)})
def lp_norm(x: Tensor, *, p: float = 2.0, axes: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Compute a norm; GE writes an infinite order as the largest or smallest int32."""
    order = math.copysign(math.inf, p) if abs(p) >= _INFINITE_NORM else p
    return torch.linalg.vector_norm(x.contiguous(), order, list(axes) or None, keepdim)


@kernel("ArgMaxV2")
def arg_max(x: Tensor, dimension: Sizes, *, dtype: int = 9) -> Tensor:
    return torch.argmax(x, dimension.ints[0]).to(from_attr(dtype))


@kernel("ArgMin")
def arg_min(x: Tensor, dimension: Sizes, *, dtype: int = 9) -> Tensor:
    return torch.argmin(x, dimension.ints[0]).to(from_attr(dtype))


@kernel("ArgMaxWithValue")
def arg_max_with_value(x: Tensor, *, dimension: int, keep_dims: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(x, dimension, keep_dims)
    return indices.to(torch.int32), values


@kernel("ArgMinWithValue")
def arg_min_with_value(x: Tensor, *, dimension: int, keep_dims: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.min(x, dimension, keep_dims)
    return indices.to(torch.int32), values


@kernel("Cummax")
def cummax(x: Tensor, *, dim: int) -> tuple[Tensor, Tensor]:
    values, indices = torch.cummax(x, dim)
    return values, indices


@kernel("Cummin")
def cummin(x: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    values, indices = torch.cummin(x, axis)
    return values, indices


@kernel("Cumsum")
def cumsum(x: Tensor, axis: Sizes, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    along = axis.ints[0]
    values = x.flip(along) if reverse else x
    total = torch.cumsum(values, along, dtype=x.dtype)
    total = total - values if exclusive else total
    return total.flip(along) if reverse else total


@kernel("Cumprod")
def cumprod(x: Tensor, axis: Sizes, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    along = axis.ints[0]
    values = x.flip(along) if reverse else x
    if exclusive:
        one = torch.ones_like(values.narrow(along, 0, min(values.size(along), 1)))
        values = torch.cat([one, values], along).narrow(along, 0, x.size(along))
    total = torch.cumprod(values, along, dtype=x.dtype)
    return total.flip(along) if reverse else total
