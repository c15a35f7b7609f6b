"""Results with the elements of an input in another shape or order. They may share its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...ge import Sizes, TooMuchError, kernel


@kernel("Reshape", may_alias=True, view=True)
def reshape(x: Tensor, shape: Sizes, *, axis: int = 0, num_axes: int = -1) -> Tensor:
    """A 0 in the shape keeps that dimension, one -1 takes what is left; ``axis`` and ``num_axes`` limit the part."""
    first = axis if axis >= 0 else x.dim() + axis + 1
    last = x.dim() if num_axes == -1 else first + num_axes
    replaced = list(x.shape[first:last])
    empty = x.numel() == 0
    sizes = [
        replaced[at] if size == 0 and at < len(replaced) and not (empty and -1 not in shape.ints) else size
        for at, size in enumerate(shape.ints)
    ]
    if empty and -1 in sizes:
        sizes[sizes.index(-1)] = _inferred(replaced, shape.ints)
    return x.reshape([*x.shape[:first], *sizes, *x.shape[last:]])


def _inferred(replaced: Sequence[int], asked: Sequence[int]) -> int:
    """The size that -1 stands for in a tensor without elements: kept dimensions, 0 long or not, cancel out."""
    kept = {at for at, size in enumerate(asked) if size == 0 and at < len(replaced)}
    left = math.prod(size for at, size in enumerate(replaced) if at not in kept)
    known = math.prod(size for at, size in enumerate(asked) if at not in kept and size != -1)
    return left // known if known else 0


@kernel("FlattenV2", may_alias=True, view=True)
def flatten(x: Tensor, *, axis: int = 1, end_axis: int = -1) -> Tensor:
    return torch.flatten(x, axis, end_axis)


@kernel("Transpose", may_alias=True, flops=0)
def transpose(x: Tensor, perm: Sizes) -> Tensor:
    return x.permute(list(perm.ints))


@kernel("TransposeD", may_alias=True, flops=0)
def transpose_attribute(x: Tensor, *, perm: Sequence[int]) -> Tensor:
    return x.permute(list(perm))


@kernel("Squeeze", may_alias=True, view=True)
def squeeze(x: Tensor, *, axis: Sequence[int] = ()) -> Tensor:
    if not axis:
        return x.squeeze()
    for each in axis:
        if x.size(each) != 1:
            raise ValueError(f"axis {each} must have size 1, got {x.size(each)}")
    return x.squeeze(tuple(axis))


@kernel("SqueezeV3", may_alias=True)
def squeeze_input(x: Tensor, axes: Sizes | None = None) -> Tensor:
    return squeeze(x, axis=() if axes is None else axes.ints)


@kernel("Unsqueeze", may_alias=True, view=True)
def unsqueeze(x: Tensor, *, axes: Sequence[int] = ()) -> Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(each % rank for each in axes):
        x = x.unsqueeze(axis)
    return x


@kernel("UnsqueezeV3", may_alias=True)
def unsqueeze_input(x: Tensor, axes: Sizes) -> Tensor:
    return unsqueeze(x, axes=axes.ints)


@kernel("ExpandDims", may_alias=True, view=True)
def expand_dims(x: Tensor, axis: Sizes) -> Tensor:
    return unsqueeze(x, axes=axis.ints)


@kernel("BroadcastTo", "Expand", may_alias=True, flops=0)
def broadcast_to(x: Tensor, shape: Sizes) -> Tensor:
    """-1 keeps a dimension. Expand also keeps a dimension where the shape says 1."""
    sizes = list(shape.ints)
    added = len(sizes) - x.dim()
    for at in range(max(added, 0), len(sizes)):
        if sizes[at] == 1:
            sizes[at] = -1
    return x.expand(sizes)


@kernel("Tile", flops=0)
def tile(x: Tensor, multiples: Sizes) -> Tensor:
    return x.repeat(list(multiples.ints))


@kernel("AsStrided", may_alias=True)
def as_strided(x: Tensor, size: Sizes, stride: Sizes, storage_offset: Sizes | None = None) -> Tensor:
    offset = 0 if storage_offset is None or not storage_offset.ints else storage_offset.ints[0]
    return x.contiguous().as_strided(list(size.ints), list(stride.ints), offset)


@kernel("ViewCopy")
def view_copy(
    dst: Tensor,
    dst_size: Sizes,
    dst_stride: Sizes,
    dst_storage_offset: Sizes,
    src: Tensor,
    src_size: Sizes,
    src_stride: Sizes,
    src_storage_offset: Sizes,
) -> Tensor:
    result = dst.clone(memory_format=torch.contiguous_format)
    target = result.as_strided(list(dst_size.ints), list(dst_stride.ints), dst_storage_offset.ints[0])
    source = src.contiguous().as_strided(list(src_size.ints), list(src_stride.ints), src_storage_offset.ints[0])
    target.copy_(source)
    return result


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
    """Python's indexing: bit i of a mask changes the meaning of entry i of begin, end and strides."""
    steps = (1,) * len(begin.ints) if strides is None else strides.ints
    axis = 0
    for at, (first, last, step) in enumerate(zip(begin.ints, end.ints, steps, strict=True)):
        bit = 1 << at
        if ellipsis_mask & bit:
            after = sum(1 for later in range(at + 1, len(begin.ints)) if not new_axis_mask & (1 << later))
            axis = x.dim() - after
        elif new_axis_mask & bit:
            x = x.unsqueeze(axis)
            axis += 1
        elif shrink_axis_mask & bit:
            x = x.select(axis, first)
        else:
            x = _cut(x, axis, None if begin_mask & bit else first, None if end_mask & bit else last, step)
            axis += 1
    return x


@kernel("StridedSliceV2", may_alias=True)
def strided_slice_v2(
    x: Tensor, begin: Sizes, end: Sizes, axes: Sizes | None = None, strides: Sizes | None = None
) -> Tensor:
    positions = range(len(begin.ints)) if axes is None else axes.ints
    steps = (1,) * len(begin.ints) if strides is None else strides.ints
    for axis, first, last, step in zip(positions, begin.ints, end.ints, steps, strict=True):
        x = _cut(x, axis, first, last, step)
    return x


def _cut(x: Tensor, axis: int, first: int | None, last: int | None, step: int) -> Tensor:
    if step > 0:
        return torch.ops.aten.slice.Tensor(x, axis, first, last, step)  # type: ignore[no-any-return]
    picked = (
        torch.arange(x.size(axis))[slice(first, last)]
        if step == 1
        else torch.tensor(list(range(x.size(axis)))[slice(first, last, step)], dtype=torch.int64)
    )
    return x.index_select(axis, picked)


@kernel("Slice", may_alias=True, flops=0)
def slice_sizes(x: Tensor, offsets: Sizes, size: Sizes) -> Tensor:
    for axis, (first, count) in enumerate(zip(offsets.ints, size.ints, strict=True)):
        x = x.narrow(axis, first, x.size(axis) - first if count == -1 else count)
    return x


# A dump may ask for as many parts as it likes; no graph has so many.
_MOST_PARTS = 1 << 14


def _check_parts(count: int) -> None:
    if not 0 < count <= _MOST_PARTS:
        raise TooMuchError(f"a tensor is split into 1 to {_MOST_PARTS} parts, got {count}")


@kernel("SplitV", may_alias=True, flops=0)
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


@kernel("ReverseV2")
def reverse(x: Tensor, axis: Sizes) -> Tensor:
    return x.flip(list(axis.ints))


@kernel("Roll")
def roll(x: Tensor, *, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    return torch.roll(x, tuple(shifts), tuple(dims)) if dims else torch.roll(x, tuple(shifts))


@kernel("Tril")
def tril(x: Tensor, *, diagonal: int = 0) -> Tensor:
    return torch.tril(x, diagonal)


@kernel("Triu")
def triu(x: Tensor, *, diagonal: int = 0) -> Tensor:
    return torch.triu(x, diagonal)
