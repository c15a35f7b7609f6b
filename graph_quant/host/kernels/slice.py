"""Slices, splits and unpacking. Results may alias the input."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import Sizes, TooMuchError, kernel


@kernel("StridedSlice", may_alias=True, flops=0)
def strided_slice(
    x: Tensor,
    begin: Sizes,
    end: Sizes,
    strides: Sizes | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """Slice as Python does: bit i of a mask changes the meaning of entry i of begin, end and strides."""
    steps = (1,) * len(begin.ints) if strides is None else strides.ints
    axis = 0
    for position, (first, last, step) in enumerate(zip(begin.ints, end.ints, steps, strict=True)):
        bit = 1 << position
        if ellipsis_mask & bit:
            after = sum(1 for later in range(position + 1, len(begin.ints)) if not new_axis_mask & (1 << later))
            axis = x.dim() - after
        elif new_axis_mask & bit:
            x = x.unsqueeze(axis)
            axis += 1
        elif shrink_axis_mask & bit:
            x = x.select(axis, first)
        else:
            x = _slice(x, axis, None if begin_mask & bit else first, None if end_mask & bit else last, step)
            axis += 1
    return x


@kernel("StridedSliceV2", may_alias=True)
def strided_slice_v2(
    x: Tensor, begin: Sizes, end: Sizes, axes: Sizes | None = None, strides: Sizes | None = None
) -> Tensor:
    sliced_axes = range(len(begin.ints)) if axes is None else axes.ints
    steps = (1,) * len(begin.ints) if strides is None else strides.ints
    for axis, first, last, step in zip(sliced_axes, begin.ints, end.ints, steps, strict=True):
        x = _slice(x, axis, first, last, step)
    return x


def _slice(x: Tensor, axis: int, first: int | None, last: int | None, step: int) -> Tensor:
    if step > 0:
        return torch.ops.aten.slice.Tensor(x, axis, first, last, step)  # type: ignore[no-any-return]
    indices = (
        torch.arange(x.size(axis))[slice(first, last)]
        if step == 1
        else torch.tensor(list(range(x.size(axis)))[slice(first, last, step)], dtype=torch.int64)
    )
    return x.index_select(axis, indices)


@kernel("Slice", may_alias=True, flops=0)
def slice_sizes(x: Tensor, offsets: Sizes, size: Sizes) -> Tensor:
    for axis, (first, count) in enumerate(zip(offsets.ints, size.ints, strict=True)):
        x = x.narrow(axis, first, x.size(axis) - first if count == -1 else count)
    return x


# A dump may ask for any number of parts; no real graph has so many.
_MAX_PARTS = 1 << 14


def _check_parts(count: int) -> None:
    if not 0 < count <= _MAX_PARTS:
        raise TooMuchError(f"a tensor is split into 1 to {_MAX_PARTS} parts, got {count}")


@kernel("SplitV", may_alias=True, flops=0, idle=("num_split",))
def split_sizes(x: Tensor, size_splits: Sizes, split_dim: Sizes) -> list[Tensor]:
    axis, sizes = split_dim.ints[0], list(size_splits.ints)
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.size(axis) - sum(size for size in sizes if size != -1)
    return list(torch.split(x, sizes, axis))


@kernel("Split", may_alias=True, flops=0)
def split(split_dim: Sizes, x: Tensor, *, num_split: int) -> list[Tensor]:
    return split_attribute(x, split_dim=split_dim.ints[0], num_split=num_split)


@kernel("SplitD", may_alias=True, flops=0)
def split_attribute(x: Tensor, *, split_dim: int, num_split: int) -> list[Tensor]:
    _check_parts(num_split)
    if x.size(split_dim) % num_split:
        raise ValueError(f"size {x.size(split_dim)} cannot be split into {num_split} equal parts")
    if x.size(split_dim) == 0:
        return [x] * num_split
    return list(torch.split(x, x.size(split_dim) // num_split, split_dim))


@kernel("Unpack", may_alias=True, flops=0)
def unpack(x: Tensor, *, num: int, axis: int = 0) -> list[Tensor]:
    if x.size(axis) != num:
        raise ValueError(f"size {x.size(axis)} cannot be unpacked into {num}")
    if num:
        _check_parts(num)
    return list(x.unbind(axis))
