"""The arithmetic of shapes, on host values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...ge.kernels import host_kernel, kernel
from ...ge.sizes import HostValue, Number, host_scalar, host_vector
from ...ge.torch_dtypes import from_attr


@kernel("Shape")
def shape_of(x: Tensor, *, dtype: int = 3) -> HostValue:
    return host_vector(tuple(x.shape), from_attr(dtype))


@kernel("ShapeN")
def shapes_of(x: Sequence[Tensor], *, dtype: int = 3) -> list[HostValue]:
    return [host_vector(tuple(each.shape), from_attr(dtype)) for each in x]


@kernel("Size")
def size_of(x: Tensor, *, dtype: int = 3) -> HostValue:
    return host_scalar(x.numel(), from_attr(dtype))


@kernel("Rank")
def rank_of(x: Tensor) -> HostValue:
    return host_scalar(x.dim(), torch.int32)


def _divide(left: Any, right: Any) -> Any:
    """True division of floats; of sizes, which are not negative, the whole quotient."""
    if isinstance(left, (float, torch.SymFloat)) or isinstance(right, (float, torch.SymFloat)):
        return left / right
    return left // right


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divide,
    "RealDiv": _divide,
    "TruncateDiv": _divide,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "Maximum": torch.sym_max,
    "Minimum": torch.sym_min,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "Less": operator.lt,
    "LessEqual": operator.le,
    "Greater": operator.gt,
    "GreaterEqual": operator.ge,
}


def _pairwise(function: Callable[[Any, Any], Any], x1: HostValue, x2: HostValue) -> tuple[Number, ...]:
    left, right = x1.items, x2.items
    count = max(len(left), len(right))
    left = left * count if len(left) == 1 else left
    right = right * count if len(right) == 1 else right
    return tuple(function(one, other) for one, other in zip(left, right, strict=True))


def _larger_shape(x1: HostValue, x2: HostValue) -> tuple[int, ...]:
    return x1.shape if (len(x1.items), len(x1.shape)) >= (len(x2.items), len(x2.shape)) else x2.shape


def _register_binary(op_type: str, function: Callable[[Any, Any], Any], dtype: torch.dtype | None) -> None:
    def run(x1: HostValue, x2: HostValue) -> HostValue:
        return HostValue(_pairwise(function, x1, x2), _larger_shape(x1, x2), x1.dtype if dtype is None else dtype)

    run.__name__ = run.__qualname__ = f"host_{op_type}"
    host_kernel(op_type)(run)


for _type, _function in _BINARY.items():
    _register_binary(_type, _function, None)
for _type, _function in _COMPARE.items():
    _register_binary(_type, _function, torch.bool)


@host_kernel("Cast")
def cast(x: HostValue, *, dst_type: int) -> HostValue:
    dtype = from_attr(dst_type)
    if dtype.is_floating_point:
        return HostValue(tuple(torch.sym_float(item) for item in x.items), x.shape, dtype)
    if dtype == torch.bool:
        return HostValue(tuple(item != 0 for item in x.items), x.shape, dtype)
    if x.dtype.is_floating_point or x.dtype == torch.bool:
        return HostValue(tuple(torch.sym_int(item) for item in x.items), x.shape, dtype)
    return HostValue(x.items, x.shape, dtype)


@host_kernel("Neg")
def negate(x: HostValue) -> HostValue:
    return HostValue(tuple(-item for item in x.items), x.shape, x.dtype)


@host_kernel("Floor")
def floor(x: HostValue) -> HostValue:
    return HostValue(tuple(math.floor(item) for item in x.items), x.shape, x.dtype)


@host_kernel("Ceil")
def ceil(x: HostValue) -> HostValue:
    return HostValue(tuple(math.ceil(item) for item in x.items), x.shape, x.dtype)


@host_kernel("Identity", "TensorMove")
def identity(x: HostValue) -> HostValue:
    return x


@host_kernel("Gather")
def gather(x: HostValue, indices: HostValue) -> HostValue:
    return HostValue(tuple(x.items[index] for index in indices.ints), indices.shape, x.dtype)


@host_kernel("GatherV2")
def gather_axis(x: HostValue, indices: HostValue, axis: HostValue) -> HostValue:
    if axis.scalar not in (0, -1) or len(x.shape) != 1:
        raise ValueError(f"axis must be that of a vector, got {axis.scalar} for a value of shape {x.shape}")
    return gather(x, indices)


@host_kernel("Pack")
def pack(x: Sequence[HostValue], *, axis: int = 0) -> HostValue:
    if axis != 0 and x[0].shape:
        raise ValueError(f"sizes can be packed along axis 0, got axis {axis} for values of shape {x[0].shape}")
    items = tuple(item for value in x for item in value.items)
    return HostValue(items, (len(x), *x[0].shape), x[0].dtype)


@host_kernel("ConcatV2")
def concat(x: Sequence[HostValue], concat_dim: HostValue) -> HostValue:
    if concat_dim.scalar not in (0, -1):
        raise ValueError(f"sizes can be joined along axis 0, got axis {concat_dim.scalar}")
    return host_vector(tuple(item for value in x for item in value.items), x[0].dtype)


@host_kernel("Unpack")
def unpack(x: HostValue, *, num: int, axis: int = 0) -> list[HostValue]:  # noqa: ARG001
    if len(x.items) != num:
        raise ValueError(f"{len(x.items)} sizes cannot be unpacked into {num}")
    return [host_scalar(item, x.dtype) for item in x.items]


@host_kernel("Slice")
def slice_sizes(x: HostValue, offsets: HostValue, size: HostValue) -> HostValue:
    first, count = offsets.ints[0], size.ints[0]
    return host_vector(x.items[first:] if count == -1 else x.items[first : first + count], x.dtype)


@host_kernel("StridedSlice")
def strided_slice(
    x: HostValue,
    begin: HostValue,
    end: HostValue,
    strides: HostValue | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> HostValue:
    step = 1 if strides is None else strides.ints[0]
    if shrink_axis_mask & 1:
        return host_scalar(x.items[begin.ints[0]], x.dtype)
    first = None if begin_mask & 1 else begin.ints[0]
    last = None if end_mask & 1 else end.ints[0]
    return host_vector(x.items[first:last:step], x.dtype)


@host_kernel("StridedSliceV2")
def strided_slice_v2(
    x: HostValue,
    begin: HostValue,
    end: HostValue,
    axes: HostValue | None = None,  # noqa: ARG001
    strides: HostValue | None = None,
) -> HostValue:
    step = 1 if strides is None else strides.ints[0]
    return host_vector(x.items[begin.ints[0] : end.ints[0] : step], x.dtype)


@host_kernel("Squeeze")
def squeeze(x: HostValue, *, axis: Sequence[int] = ()) -> HostValue:
    if not axis:
        return HostValue(x.items, tuple(size for size in x.shape if size != 1), x.dtype)
    dropped = {each % len(x.shape) for each in axis}
    return HostValue(x.items, tuple(size for at, size in enumerate(x.shape) if at not in dropped), x.dtype)


@host_kernel("Unsqueeze")
def unsqueeze(x: HostValue, *, axes: Sequence[int] = ()) -> HostValue:
    rank = len(x.shape) + len(axes)
    added = {each % rank for each in axes}
    kept = iter(x.shape)
    return HostValue(x.items, tuple(1 if at in added else next(kept) for at in range(rank)), x.dtype)


@host_kernel("ExpandDims")
def expand_dims(x: HostValue, axis: HostValue) -> HostValue:
    return unsqueeze(x, axes=axis.ints)


@host_kernel("Reshape")
def reshape(x: HostValue, shape: HostValue) -> HostValue:
    known = math.prod(size for size in shape.ints if size != -1)
    sizes = tuple(len(x.items) // max(known, 1) if size == -1 else size for size in shape.ints)
    return HostValue(x.items, sizes, x.dtype)


@host_kernel("ReduceProd")
def reduce_prod(x: HostValue, axes: HostValue, *, keep_dims: bool = False) -> HostValue:  # noqa: ARG001
    return HostValue((math.prod(x.items),), (1,) * len(x.shape) if keep_dims else (), x.dtype)


@host_kernel("ReduceSum")
def reduce_sum(x: HostValue, axes: HostValue, *, keep_dims: bool = False) -> HostValue:  # noqa: ARG001
    return HostValue((sum(x.items),), (1,) * len(x.shape) if keep_dims else (), x.dtype)


@host_kernel("SelectV2")
def select(condition: HostValue, then: HostValue, else_: HostValue) -> HostValue:
    return then if condition.scalar else else_
