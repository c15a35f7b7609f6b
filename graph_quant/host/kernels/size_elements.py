"""Elements of sizes: rounding and wrapping to a dtype, and broadcasting."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...ge import Number, Sizes, TooMuchError

# Bounds on powers and concatenations of sizes, which a dump could grow without limit.
_MAX_ITEMS, _MAX_BITS = 1 << 14, 1 << 10


def is_symbolic(item: Any) -> bool:
    """Whether an item is symbolic; Dynamo's own symbols count as numbers."""
    return isinstance(item, torch.SymInt | torch.SymFloat | torch.SymBool)


def is_whole(dtype: torch.dtype) -> bool:
    """Whether a dtype is an integer type, which wraps around."""
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def cast_items(items: Iterable[Any], dtype: torch.dtype) -> tuple[Number, ...]:
    """Return the items as a tensor of ``dtype`` would hold them."""
    if is_whole(dtype):
        limits = torch.iinfo(dtype)
        return tuple([_wrap(item, limits.min, limits.max) for item in items])
    if dtype.is_floating_point:
        return tuple([item if is_symbolic(item) else _round(item, dtype) for item in items])
    bools: list[Any] = [item if isinstance(item, bool | torch.SymBool) else item != 0 for item in items]
    return tuple(bools)


def _wrap(item: Any, low: int, high: int) -> Any:
    if is_symbolic(item):
        if item.node.hint is not None and int(item.node.hint).bit_length() > _MAX_BITS:
            raise TooMuchError("a size grows beyond every bound")
        return item
    return item if low <= item <= high else (item - low) % (high - low + 1) + low


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _round(item: float, dtype: torch.dtype) -> float:
    return torch.tensor(item, dtype=torch.float64).to(dtype).item()


def promote_dtypes(values: Sequence[Sizes]) -> torch.dtype:
    """Return the promoted dtype of several values, by torch's rules."""
    first = values[0].dtype
    if all(value.dtype == first for value in values):
        return first
    kinds: list[torch.dtype | None] = [None, None]
    for value in values:
        known = kinds[bool(value.shape)]
        kinds[bool(value.shape)] = value.dtype if known is None else torch.promote_types(known, value.dtype)
    scalar, array = kinds
    if scalar is None or array is None:
        return scalar or array or first
    promoted = torch.promote_types(scalar, array)
    # A scalar changes the dtype of an array only if it is of a higher category.
    return array if _category(promoted) == _category(array) else promoted


def _category(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point else int(is_whole(dtype))


def broadcast(values: Sequence[Sizes]) -> tuple[list[tuple[Number, ...]], tuple[int, ...]]:
    """Return the items of each value after broadcasting, and the common shape."""
    shape = values[0].shape
    if all(value.shape == shape for value in values):
        return [value.items for value in values], shape
    rank = max(len(value.shape) for value in values)
    padded = [(1,) * (rank - len(value.shape)) + value.shape for value in values]
    shape = tuple(_broadcast_size(sizes) for sizes in zip(*padded, strict=True))
    return [_repeat(value.items, own, shape) for value, own in zip(values, padded, strict=True)], shape


def _broadcast_size(sizes: Sequence[int]) -> int:
    wide = [size for size in sizes if size != 1]
    if any(size != wide[0] for size in wide):
        raise ValueError(f"sizes {', '.join(map(str, sizes))} do not broadcast")
    return wide[0] if wide else 1


def _repeat(items: tuple[Number, ...], own: Sequence[int], shape: Sequence[int]) -> tuple[Number, ...]:
    strides, stride = [], 1
    for size in reversed(own):
        strides.append(0 if size == 1 else stride)
        stride *= size
    strides.reverse()
    indices = itertools.product(*[range(size) for size in shape])
    return tuple(items[sum(i * stride for i, stride in zip(index, strides, strict=True))] for index in indices)


def check_count(count: int) -> None:
    """Raise if a value has too many items to be sizes."""
    if count > _MAX_ITEMS:
        raise TooMuchError(f"{count} sizes in one value are more than the host keeps ({_MAX_ITEMS})")
