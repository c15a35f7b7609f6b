"""The arithmetic of shapes, on sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...ge.kernels import kernel, size_kernel
from ...ge.sizes import Number, Sizes, list_of_sizes, one_size
from ...ge.torch_dtypes import from_attr


@kernel("Shape", view=True)
def shape_of(x: Tensor, *, dtype: int = 3) -> Sizes:
    return list_of_sizes(tuple(x.shape), from_attr(dtype))


@kernel("ShapeN")
def shapes_of(x: Sequence[Tensor], *, dtype: int = 3) -> list[Sizes]:
    return [list_of_sizes(tuple(each.shape), from_attr(dtype)) for each in x]


@kernel("Size")
def size_of(x: Tensor, *, dtype: int = 3) -> Sizes:
    return one_size(x.numel(), from_attr(dtype))


@kernel("Rank")
def rank_of(x: Tensor) -> Sizes:
    return one_size(x.dim(), torch.int32)


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


def _pairwise(function: Callable[[Any, Any], Any], x1: Sizes, x2: Sizes) -> tuple[Number, ...]:
    left, right = x1.items, x2.items
    count = max(len(left), len(right))
    left = left * count if len(left) == 1 else left
    right = right * count if len(right) == 1 else right
    return tuple(function(one, other) for one, other in zip(left, right, strict=True))


def _larger_shape(x1: Sizes, x2: Sizes) -> tuple[int, ...]:
    return x1.shape if (len(x1.items), len(x1.shape)) >= (len(x2.items), len(x2.shape)) else x2.shape


def _register_binary(op_type: str, function: Callable[[Any, Any], Any], dtype: torch.dtype | None) -> None:
    def run(x1: Sizes, x2: Sizes) -> Sizes:
        return Sizes(_pairwise(function, x1, x2), _larger_shape(x1, x2), x1.dtype if dtype is None else dtype)

    run.__name__ = run.__qualname__ = f"size_{op_type}"
    size_kernel(op_type)(run)


for _type, _function in _BINARY.items():
    _register_binary(_type, _function, None)
for _type, _function in _COMPARE.items():
    _register_binary(_type, _function, torch.bool)


@size_kernel("Cast")
def cast(x: Sizes, *, dst_type: int) -> Sizes:
    dtype = from_attr(dst_type)
    if dtype.is_floating_point:
        return Sizes(tuple(torch.sym_float(item) for item in x.items), x.shape, dtype)
    if dtype == torch.bool:
        return Sizes(tuple(item != 0 for item in x.items), x.shape, dtype)
    if x.dtype.is_floating_point or x.dtype == torch.bool:
        return Sizes(tuple(torch.sym_int(item) for item in x.items), x.shape, dtype)
    return Sizes(x.items, x.shape, dtype)


@size_kernel("Neg")
def negate(x: Sizes) -> Sizes:
    return Sizes(tuple(-item for item in x.items), x.shape, x.dtype)


@size_kernel("Floor")
def floor(x: Sizes) -> Sizes:
    return Sizes(tuple(math.floor(item) for item in x.items), x.shape, x.dtype)


@size_kernel("Ceil")
def ceil(x: Sizes) -> Sizes:
    return Sizes(tuple(math.ceil(item) for item in x.items), x.shape, x.dtype)


@size_kernel("Identity", "TensorMove")
def identity(x: Sizes) -> Sizes:
    return x


@size_kernel("Gather")
def gather(x: Sizes, indices: Sizes) -> Sizes:
    return Sizes(tuple(x.items[index] for index in indices.ints), indices.shape, x.dtype)


@size_kernel("GatherV2")
def gather_axis(x: Sizes, indices: Sizes, axis: Sizes) -> Sizes:
    if axis.scalar not in (0, -1) or len(x.shape) != 1:
        raise ValueError(f"axis must be that of a vector, got {axis.scalar} for a value of shape {x.shape}")
    return gather(x, indices)


@size_kernel("Pack")
def pack(x: Sequence[Sizes], *, axis: int = 0) -> Sizes:
    if axis != 0 and x[0].shape:
        raise ValueError(f"sizes can be packed along axis 0, got axis {axis} for values of shape {x[0].shape}")
    items = tuple(item for value in x for item in value.items)
    return Sizes(items, (len(x), *x[0].shape), x[0].dtype)


@size_kernel("ConcatV2")
def concat(x: Sequence[Sizes], concat_dim: Sizes) -> Sizes:
    if concat_dim.scalar not in (0, -1):
        raise ValueError(f"sizes can be joined along axis 0, got axis {concat_dim.scalar}")
    return list_of_sizes(tuple(item for value in x for item in value.items), x[0].dtype)


@size_kernel("Unpack")
def unpack(x: Sizes, *, num: int, axis: int = 0) -> list[Sizes]:  # noqa: ARG001
    if len(x.items) != num:
        raise ValueError(f"{len(x.items)} sizes cannot be unpacked into {num}")
    return [one_size(item, x.dtype) for item in x.items]


@size_kernel("Slice")
def slice_sizes(x: Sizes, offsets: Sizes, size: Sizes) -> Sizes:
    first, count = offsets.ints[0], size.ints[0]
    return list_of_sizes(x.items[first:] if count == -1 else x.items[first : first + count], x.dtype)


@size_kernel("StridedSlice")
def strided_slice(
    x: Sizes,
    begin: Sizes,
    end: Sizes,
    strides: Sizes | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Sizes:
    step = 1 if strides is None else strides.ints[0]
    if shrink_axis_mask & 1:
        return one_size(x.items[begin.ints[0]], x.dtype)
    first = None if begin_mask & 1 else begin.ints[0]
    last = None if end_mask & 1 else end.ints[0]
    return list_of_sizes(x.items[first:last:step], x.dtype)


@size_kernel("StridedSliceV2")
def strided_slice_v2(
    x: Sizes,
    begin: Sizes,
    end: Sizes,
    axes: Sizes | None = None,  # noqa: ARG001
    strides: Sizes | None = None,
) -> Sizes:
    step = 1 if strides is None else strides.ints[0]
    return list_of_sizes(x.items[begin.ints[0] : end.ints[0] : step], x.dtype)


@size_kernel("Squeeze")
def squeeze(x: Sizes, *, axis: Sequence[int] = ()) -> Sizes:
    if not axis:
        return Sizes(x.items, tuple(size for size in x.shape if size != 1), x.dtype)
    dropped = {each % len(x.shape) for each in axis}
    return Sizes(x.items, tuple(size for at, size in enumerate(x.shape) if at not in dropped), x.dtype)


@size_kernel("Unsqueeze")
def unsqueeze(x: Sizes, *, axes: Sequence[int] = ()) -> Sizes:
    rank = len(x.shape) + len(axes)
    added = {each % rank for each in axes}
    kept = iter(x.shape)
    return Sizes(x.items, tuple(1 if at in added else next(kept) for at in range(rank)), x.dtype)


@size_kernel("ExpandDims")
def expand_dims(x: Sizes, axis: Sizes) -> Sizes:
    return unsqueeze(x, axes=axis.ints)


@size_kernel("Reshape")
def reshape(x: Sizes, shape: Sizes) -> Sizes:
    known = math.prod(size for size in shape.ints if size != -1)
    sizes = tuple(len(x.items) // max(known, 1) if size == -1 else size for size in shape.ints)
    return Sizes(x.items, sizes, x.dtype)


@size_kernel("ReduceProd")
def reduce_prod(x: Sizes, axes: Sizes, *, keep_dims: bool = False) -> Sizes:  # noqa: ARG001
    return Sizes((math.prod(x.items),), (1,) * len(x.shape) if keep_dims else (), x.dtype)


@size_kernel("ReduceSum")
def reduce_sum(x: Sizes, axes: Sizes, *, keep_dims: bool = False) -> Sizes:  # noqa: ARG001
    return Sizes((sum(x.items),), (1,) * len(x.shape) if keep_dims else (), x.dtype)


@size_kernel("SelectV2")
def select(condition: Sizes, then: Sizes, else_: Sizes) -> Sizes:
    return then if condition.scalar else else_
