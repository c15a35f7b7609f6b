"""The items of sizes: how dtypes bound them, and how shapes broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...ge import Number, Sizes, TooMuchError

# Powers and joins of sizes that no graph needs, and that would grow without end.
_MOST_ITEMS, _MOST_BITS = 1 << 14, 1 << 10


def is_symbolic(item: Any) -> bool:
    """Whether an item stands for a number that is not known yet; a compiler's own symbols pass for numbers."""
    return isinstance(item, torch.SymInt | torch.SymFloat | torch.SymBool)


def is_whole(dtype: torch.dtype) -> bool:
    """Whether a dtype has the arithmetic of integers that wrap around."""
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def fitted(items: Iterable[Any], dtype: torch.dtype) -> tuple[Number, ...]:
    """The items as a tensor of ``dtype`` holds them."""
    if is_whole(dtype):
        limits = torch.iinfo(dtype)
        return tuple([_wrapped(item, limits.min, limits.max) for item in items])
    if dtype.is_floating_point:
        return tuple([item if is_symbolic(item) else _rounded(item, dtype) for item in items])
    truths: list[Any] = [item if isinstance(item, bool | torch.SymBool) else item != 0 for item in items]
    return tuple(truths)


def _wrapped(item: Any, low: int, high: int) -> Any:
    if is_symbolic(item):
        if item.node.hint is not None and int(item.node.hint).bit_length() > _MOST_BITS:
            raise TooMuchError("a size grows beyond every bound")
        return item
    return item if low <= item <= high else (item - low) % (high - low + 1) + low


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _rounded(item: float, dtype: torch.dtype) -> float:
    return torch.tensor(item, dtype=torch.float64).to(dtype).item()


def joint_dtype(values: Sequence[Sizes]) -> torch.dtype:
    """The dtype of a result of several values, as torch promotes them."""
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
    # A scalar changes the dtype of an array only where it is of a higher kind.
    return array if _kind(promoted) == _kind(array) else promoted


def _kind(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point else int(is_whole(dtype))


def broadcast(values: Sequence[Sizes]) -> tuple[list[tuple[Number, ...]], tuple[int, ...]]:
    """The items of each value as often as broadcasting repeats them, and the shape they then have."""
    shape = values[0].shape
    if all(value.shape == shape for value in values):
        return [value.items for value in values], shape
    rank = max(len(value.shape) for value in values)
    padded = [(1,) * (rank - len(value.shape)) + value.shape for value in values]
    shape = tuple(_joint_size(sizes) for sizes in zip(*padded, strict=True))
    return [_repeated(value.items, own, shape) for value, own in zip(values, padded, strict=True)], shape


def _joint_size(sizes: Sequence[int]) -> int:
    wide = [size for size in sizes if size != 1]
    if any(size != wide[0] for size in wide):
        raise ValueError(f"sizes {', '.join(map(str, sizes))} do not broadcast")
    return wide[0] if wide else 1


def _repeated(items: tuple[Number, ...], own: Sequence[int], shape: Sequence[int]) -> tuple[Number, ...]:
    steps, step = [], 1
    for size in reversed(own):
        steps.append(0 if size == 1 else step)
        step *= size
    steps.reverse()
    places = itertools.product(*[range(size) for size in shape])
    return tuple(items[sum(at * by for at, by in zip(place, steps, strict=True))] for place in places)


def check_count(count: int) -> None:
    """Refuse values that are too long to be sizes."""
    if count > _MOST_ITEMS:
        raise TooMuchError(f"{count} sizes in one value are more than the host keeps ({_MOST_ITEMS})")
