"""Sizes and their arithmetic on Python numbers, with the results of the tensor kernels of the same types."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch

from ...ge import KERNELS, Sizes, TooMuchError, from_attr, kernel, list_of_sizes, size_kernel, to_sizes, to_tensor
from .size_elements import broadcast, cast_items, check_count, is_symbolic, is_whole, promote_dtypes


def _sizes(items: Sequence[Any], shape: tuple[int, ...], dtype: int) -> Sizes:
    return Sizes(cast_items(items, from_attr(dtype)), shape, from_attr(dtype))


@kernel("Shape", view=True)
def shape_of(x: Tensor, *, dtype: int = 3) -> Sizes:
    return _sizes(tuple(x.shape), (x.dim(),), dtype)


@kernel("ShapeN")
def shapes_of(x: Sequence[Tensor], *, dtype: int = 3) -> list[Sizes]:
    return [_sizes(tuple(tensor.shape), (tensor.dim(),), dtype) for tensor in x]


@kernel("Size")
def size_of(x: Tensor, *, dtype: int = 3) -> Sizes:
    return _sizes((x.numel(),), (), dtype)


@kernel("Rank")
def rank_of(x: Tensor) -> Sizes:
    return Sizes((x.dim(),), (), torch.int32)


def _run_tensor_kernel(op_type: str, *values: Sizes, dtype: torch.dtype | None = None, **attributes: Any) -> Any:
    """Return the tensor kernel's result; None for integers, symbols, and under Dynamo.

    Under Dynamo numbers must stay numbers: arithmetic is then done in float64 and rounded.
    """
    kinds = [value.dtype for value in values] + ([] if dtype is None else [dtype])
    if all(map(is_whole, kinds)) or torch.compiler.is_dynamo_compiling():
        return None
    if any(is_symbolic(item) for value in values for item in value.items):
        return None
    with no_dispatch():
        declared = KERNELS[op_type].inputs
        args = [
            value if parameter.is_size else to_tensor(value) for parameter, value in zip(declared, values, strict=True)
        ]
        return to_sizes(KERNELS[op_type].function(*args, **attributes))


def _truncated_quotient(left: Any, right: Any) -> Any:
    if isinstance(left, float | torch.SymFloat) or isinstance(right, float | torch.SymFloat):
        return left / right
    if left >= 0 and right > 0:
        return left // right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _truncated_remainder(left: Any, right: Any) -> Any:
    if isinstance(left, float | torch.SymFloat) or isinstance(right, float | torch.SymFloat):
        return math.fmod(left, right)
    return left % right if left >= 0 and right > 0 else left - right * _truncated_quotient(left, right)


_MAX_POWER = 64


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, float | torch.SymFloat) or isinstance(right, float | torch.SymFloat):
        return left**right
    if right < 0:
        return 1 if left == 1 else (-1 if right % 2 else 1) if left == -1 else 0
    if not is_symbolic(left) and not is_symbolic(right):
        # Only the low bits are kept; the exact power could be huge.
        return pow(left, right, 1 << 64)
    if right > _MAX_POWER:
        raise TooMuchError(f"a size to the power of {right} is no size")
    return left ** int(right)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _truncated_quotient,
    "RealDiv": _truncated_quotient,
    "TruncateDiv": _truncated_quotient,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Mod": _truncated_remainder,
    "Pow": _power,
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


def _register_binary(op_type: str, function: Callable[[Any, Any], Any], dtype: torch.dtype | None) -> None:
    def run(x1: Sizes, x2: Sizes) -> Sizes:
        computed = _run_tensor_kernel(op_type, x1, x2)
        if computed is not None:
            return computed  # type: ignore[no-any-return]
        (left, right), shape = broadcast((x1, x2))
        check_count(len(left))
        items = [function(one, other) for one, other in zip(left, right, strict=True)]
        kind = promote_dtypes((x1, x2)) if dtype is None else dtype
        return Sizes(cast_items(items, kind), shape, kind)

    run.__name__ = run.__qualname__ = f"host_{op_type}"
    size_kernel(op_type)(run)


for _type, _function in _BINARY.items():
    _register_binary(_type, _function, None)
for _type, _function in _COMPARE.items():
    _register_binary(_type, _function, torch.bool)


@size_kernel("Cast")
def cast(x: Sizes, *, dst_type: int) -> Sizes:
    dtype = from_attr(dst_type)
    computed = _run_tensor_kernel("Cast", x, dtype=dtype, dst_type=dst_type)
    if computed is not None:
        return computed  # type: ignore[no-any-return]
    items: Sequence[Any] = x.items
    if dtype.is_floating_point:
        # A symbol would not be rounded, so Dynamo specialises on each size instead.
        exact = dtype == torch.float64 or not torch.compiler.is_dynamo_compiling()
        items = [torch.sym_float(item) if exact else float(int(item)) for item in items]
    elif dtype != torch.bool and not is_whole(x.dtype):
        items = [torch.sym_int(item) for item in items]
    return Sizes(cast_items(items, dtype), x.shape, dtype)


def _register_unary(op_type: str, function: Callable[[Any], Any]) -> None:
    def run(x: Sizes) -> Sizes:
        computed = _run_tensor_kernel(op_type, x)
        if computed is not None:
            return computed  # type: ignore[no-any-return]
        items = [function(item) for item in x.items]
        if x.dtype.is_floating_point:
            items = [torch.sym_float(item) for item in items]
        return Sizes(cast_items(items, x.dtype), x.shape, x.dtype)

    run.__name__ = run.__qualname__ = f"host_{op_type}"
    size_kernel(op_type)(run)


_UNARY: dict[str, Callable[[Any], Any]] = {"Neg": operator.neg, "Floor": math.floor, "Ceil": math.ceil}
for _type, _unary in _UNARY.items():
    _register_unary(_type, _unary)


@size_kernel("ReduceProd")
def reduce_prod(x: Sizes, axes: Sizes, *, keep_dims: bool = False) -> Sizes:
    return _reduce("ReduceProd", math.prod, x, axes, keep_dims)


@size_kernel("ReduceProdD")
def reduce_prod_d(x: Sizes, *, axes: Sequence[int], keep_dims: bool = False) -> Sizes:
    return reduce_prod(x, list_of_sizes(axes), keep_dims=keep_dims)


@size_kernel("ReduceSum")
def reduce_sum(x: Sizes, axes: Sizes, *, keep_dims: bool = False) -> Sizes:
    return _reduce("ReduceSum", sum, x, axes, keep_dims)


def _reduce(op_type: str, combine: Callable[[Sequence[Any]], Any], x: Sizes, axes: Sizes, keep_dims: bool) -> Sizes:
    computed = _run_tensor_kernel(op_type, x, axes, keep_dims=keep_dims)
    if computed is not None:
        return computed  # type: ignore[no-any-return]
    groups, shape = _constant_groups(x.shape, tuple(int(axis) for axis in axes.items), keep_dims)
    items = [combine([x.items[index] for index in group]) for group in groups]
    return Sizes(cast_items(items, x.dtype), shape, x.dtype)


Groups = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _constant_groups(shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool) -> Groups:
    return _groups(shape, axes, keep_dims)


@functools.lru_cache(maxsize=1024)
def _groups(shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool) -> Groups:
    """Return, for each item of the result, the indices that it reduces, and the shape. No axes means all of them."""
    if not shape:
        return ((0,),), ()
    axis_range = range(len(shape))
    reduced = sorted({axis_range[axis] for axis in axes} or axis_range)
    kept = [axis for axis in axis_range if axis not in reduced]
    sizes = tuple(1 if axis in reduced else shape[axis] for axis in axis_range if keep_dims or axis in kept)
    with no_dispatch():
        indices = torch.arange(math.prod(shape)).reshape(shape).permute(*kept, *reduced)
        count = math.prod(shape[axis] for axis in reduced)
        rows = indices.reshape(math.prod(sizes), count).tolist()
    return tuple(tuple(row) for row in rows), sizes


@size_kernel("SelectV2")
def select(condition: Sizes, then: Sizes, else_: Sizes) -> Sizes:
    (chosen, left, right), shape = broadcast((condition, then, else_))
    dtype = promote_dtypes((then, else_))
    items = [one if choice else other for choice, one, other in zip(chosen, left, right, strict=True)]
    return Sizes(cast_items(items, dtype), shape, dtype)
