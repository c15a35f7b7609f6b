"""Reshaping, permuting, slicing, joining and splitting."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import torch

from support.kernel_samples.base import ALL, Case, axis_of, kernel_sample, shape, size, sizes, tensor


def _any(chance: random.Random, least: int = 0, zeros: bool = True) -> torch.Tensor:
    return tensor(chance, shape(chance, least, zeros=zeros), chance.choice(ALL))


def _by_numbers(x: torch.Tensor, call: Any) -> torch.Tensor:
    """Apply a NumPy rearrangement to element indices, and gather the elements."""
    return x.reshape(-1)[torch.from_numpy(np.array(call(np.arange(x.numel()).reshape(x.shape))))]


@kernel_sample("Identity", "TensorMove")
def identity(chance: random.Random) -> Case:
    x = _any(chance)
    return Case([x], {}, x.clone())


@kernel_sample("Assign")
def assign(chance: random.Random) -> Case:
    value = _any(chance)
    return Case([torch.zeros_like(value), value], {}, value.clone())


@kernel_sample("NoOp")
def no_op(chance: random.Random) -> Case:  # noqa: ARG001
    return Case([], {}, None)


@kernel_sample("Reshape")
def reshape(chance: random.Random) -> Case:
    x = _any(chance)
    target = list(x.shape)
    chance.shuffle(target)
    expected = x.reshape(target)
    # A 0 copies a dimension of a non-empty tensor, -1 is inferred.
    if target and x.numel() and chance.random() < 0.5:
        target[chance.randrange(len(target))] = -1
    target = [0 if at < x.dim() and length == x.size(at) and x.numel() else length for at, length in enumerate(target)]
    return Case([x, sizes(target)], {}, expected)


@kernel_sample("Transpose")
def transpose(chance: random.Random) -> Case:
    x = _any(chance)
    order = chance.sample(range(x.dim()), x.dim())
    return Case([x, sizes(order)], {}, _by_numbers(x, lambda n: n.transpose(order)))


@kernel_sample("TransposeD")
def transpose_attribute(chance: random.Random) -> Case:
    x = _any(chance)
    order = chance.sample(range(x.dim()), x.dim())
    return Case([x], {"perm": order}, _by_numbers(x, lambda n: n.transpose(order)))


@kernel_sample("FlattenV2")
def flatten(chance: random.Random) -> Case:
    x = _any(chance)
    first, last = sorted(chance.choices(range(max(1, x.dim())), k=2))
    full = (*x.shape[:first], int(np.prod(x.shape[first : last + 1])), *x.shape[last + 1 :])
    return Case([x], {"axis": first, "end_axis": last}, _by_numbers(x, lambda n: n.reshape(full)))


def _squeezed(chance: random.Random) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    x = _any(chance)
    ones = [axis - chance.choice((0, x.dim())) for axis in range(x.dim()) if x.size(axis) == 1]
    axes = chance.sample(ones, chance.randint(0, len(ones)))
    return x, axes, _by_numbers(x, lambda n: np.squeeze(n, tuple(axes) if axes else None))


@kernel_sample("Squeeze")
def squeeze(chance: random.Random) -> Case:
    x, axes, expected = _squeezed(chance)
    return Case([x], {"axis": axes}, expected)


@kernel_sample("SqueezeV3")
def squeeze_input(chance: random.Random) -> Case:
    x, axes, expected = _squeezed(chance)
    return Case([x, sizes(axes) if axes else None], {}, expected)


def _unsqueezed(chance: random.Random, most: int) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    x = _any(chance)
    rank = x.dim() + chance.randint(1, most)
    axes = [axis - chance.choice((0, rank)) for axis in chance.sample(range(rank), rank - x.dim())]
    return x, axes, _by_numbers(x, lambda n: np.expand_dims(n, tuple(axes)))


@kernel_sample("Unsqueeze")
def unsqueeze(chance: random.Random) -> Case:
    x, axes, expected = _unsqueezed(chance, 2)
    return Case([x], {"axes": axes}, expected)


@kernel_sample("UnsqueezeV3")
def unsqueeze_input(chance: random.Random) -> Case:
    x, axes, expected = _unsqueezed(chance, 2)
    return Case([x, sizes(axes)], {}, expected)


@kernel_sample("ExpandDims")
def expand_dims(chance: random.Random) -> Case:
    x, axes, expected = _unsqueezed(chance, 1)
    return Case([x, size(axes[0])], {}, expected)


@kernel_sample("BroadcastTo", "Expand")
def broadcast_to(chance: random.Random) -> Case:
    full = shape(chance)
    x = tensor(chance, [chance.choice((length, 1)) for length in full[chance.randint(0, len(full)) :]], torch.float32)
    added = len(full) - x.dim()
    target = [
        -1 if at >= added and x.size(at - added) == length and chance.random() < 0.3 else length
        for at, length in enumerate(full)
    ]
    return Case([x, sizes(target)], {}, _by_numbers(x, lambda n: np.broadcast_to(n, full)))


@kernel_sample("Tile")
def tile(chance: random.Random) -> Case:
    x = _any(chance)
    times = [chance.randint(0, 3) for _ in range(x.dim() + chance.randint(0, 1))]
    return Case([x, sizes(times)], {}, _by_numbers(x, lambda n: np.tile(n, times)))


def _view(chance: random.Random, count: int) -> tuple[list[int], list[int], int, np.ndarray]:  # type: ignore[type-arg]
    """Sizes, strides and an offset of a view without overlap, and the positions of its elements."""
    full = [chance.randint(1, 3), chance.randint(1, 3)]
    strides = chance.choice(([full[1], 1], [1, full[0]]))
    offset = chance.randint(0, count - full[0] * full[1])
    rows, columns = np.indices(full)
    return full, strides, offset, offset + rows * strides[0] + columns * strides[1]


@kernel_sample("AsStrided")
def as_strided(chance: random.Random) -> Case:
    x = tensor(chance, [3, 4], chance.choice(ALL))
    full, strides, offset, positions = _view(chance, 12)
    source = x.t().contiguous().t() if chance.random() < 0.3 else x
    return Case([source, sizes(full), sizes(strides), sizes([offset])], {}, x.reshape(-1)[torch.from_numpy(positions)])


@kernel_sample("ViewCopy")
def view_copy(chance: random.Random) -> Case:
    dtype = chance.choice(ALL)
    dst, src = tensor(chance, [3, 4], dtype), tensor(chance, [12], dtype)
    full, strides, offset, positions = _view(chance, 12)
    first = chance.randint(0, 12 - positions.size)
    expected = dst.clone().reshape(-1)
    expected[torch.from_numpy(positions)] = src[first : first + positions.size].reshape(full)
    to = [sizes(full), sizes(strides), size(offset)]
    taken = [sizes(full), sizes([full[1], 1]), size(first)]
    return Case([dst, *to, src, *taken], {}, expected.reshape(3, 4))


@kernel_sample("StridedSlice")
def strided_slice(chance: random.Random) -> Case:
    x = _any(chance, least=1, zeros=False)
    first, last = ([chance.randint(-length - 1, length + 1) for length in x.shape] for _ in range(2))
    step = [chance.choice((1, 1, 2, -1)) for _ in x.shape]
    masks = {name: chance.randint(0, 15) for name in ("begin_mask", "end_mask")}
    masks["shrink_axis_mask"] = chance.choice((0, 0, chance.randint(0, 15)))
    first = [
        chance.randint(-length, length - 1) if masks["shrink_axis_mask"] >> at & 1 else first[at]
        for at, length in enumerate(x.shape)
    ]
    slices = tuple(
        first[at]
        if masks["shrink_axis_mask"] >> at & 1
        else slice(
            None if masks["begin_mask"] >> at & 1 else first[at],
            None if masks["end_mask"] >> at & 1 else last[at],
            step[at],
        )
        for at in range(x.dim())
    )
    return Case([x, sizes(first), sizes(last), sizes(step)], masks, _by_numbers(x, lambda n: n[slices]))


@kernel_sample("StridedSliceV2")
def strided_slice_axes(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axes = chance.sample(range(x.dim()), chance.randint(1, x.dim()))
    slices: list[Any] = [slice(None)] * x.dim()
    for axis in axes:
        slices[axis] = slice(chance.randint(-4, 4), chance.randint(-4, 5), chance.choice((1, 2)))
    bounds = [[slices[axis].start for axis in axes], [slices[axis].stop for axis in axes]]
    signed = [axis - chance.choice((0, x.dim())) for axis in axes]
    steps = [slices[axis].step for axis in axes]
    expected = _by_numbers(x, lambda n: n[tuple(slices)])
    return Case([x, *map(sizes, (*bounds, signed, steps))], {}, expected)


@kernel_sample("Slice")
def slice_sizes(chance: random.Random) -> Case:
    x = _any(chance)
    first = [chance.randint(0, length) for length in x.shape]
    count = [chance.choice((-1, chance.randint(0, length - at))) for at, length in zip(first, x.shape, strict=True)]
    ends = [length if n == -1 else at + n for at, n, length in zip(first, count, x.shape, strict=True)]
    slices = tuple(itertools.starmap(slice, zip(first, ends, strict=True)))
    return Case([x, sizes(first), sizes(count)], {}, _by_numbers(x, lambda n: n[slices]))


@kernel_sample("SplitV")
def split_sizes(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axis = axis_of(chance, x.dim())
    cuts = sorted(chance.randint(0, x.size(axis)) for _ in range(chance.randint(0, 3)))
    lengths = [b - a for a, b in itertools.pairwise([0, *cuts, x.size(axis)])]
    parts = [x.narrow(axis, a, b - a) for a, b in itertools.pairwise([0, *cuts, x.size(axis)])]
    if chance.random() < 0.5:
        lengths[chance.randrange(len(lengths))] = -1
    return Case([x, sizes(lengths), size(axis)], {}, parts)


def _equal_parts(chance: random.Random) -> tuple[torch.Tensor, int, int, list[torch.Tensor]]:
    full, count = shape(chance, 1), chance.randint(1, 3)
    axis = axis_of(chance, len(full))
    full[axis] *= count
    x = tensor(chance, full, chance.choice(ALL))
    length = full[axis] // count
    return x, axis, count, [x.narrow(axis, at * length, length) for at in range(count)]


@kernel_sample("Split")
def split(chance: random.Random) -> Case:
    x, axis, count, parts = _equal_parts(chance)
    return Case([size(axis), x], {"num_split": count}, parts)


@kernel_sample("SplitD")
def split_attribute(chance: random.Random) -> Case:
    x, axis, count, parts = _equal_parts(chance)
    return Case([x], {"split_dim": axis, "num_split": count}, parts)


@kernel_sample("Unpack")
def unpack(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axis = axis_of(chance, x.dim())
    return Case([x], {"num": x.size(axis), "axis": axis}, [x.select(axis, at) for at in range(x.size(axis))])


@kernel_sample("ReverseV2")
def reverse(chance: random.Random) -> Case:
    x = _any(chance)
    axes = chance.sample(range(x.dim()), chance.randint(0, x.dim()))
    signed = [axis - chance.choice((0, x.dim())) for axis in axes]
    return Case([x, sizes(signed)], {}, _by_numbers(x, lambda n: np.flip(n, tuple(axes))))


@kernel_sample("Roll")
def roll(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axes = chance.sample(range(x.dim()), chance.randint(0, x.dim()))
    shifts = [chance.randint(-5, 5) for _ in axes] or [chance.randint(-5, 5)]
    expected = _by_numbers(x, lambda n: np.roll(n, shifts, tuple(axes)) if axes else np.roll(n, shifts[0]))
    return Case([x], {"shifts": shifts, "dims": axes}, expected)


def _triangle(op_type: str, call: Any) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x, diagonal = _any(chance, least=2), chance.randint(-3, 3)
        kept = torch.from_numpy(call(np.ones(x.shape, bool), diagonal))
        expected = torch.zeros_like(x)
        expected[kept] = x[kept]
        return Case([x], {"diagonal": diagonal}, expected)


_triangle("Tril", np.tril)
_triangle("Triu", np.triu)


def _parts(chance: random.Random) -> tuple[list[torch.Tensor], int, torch.Tensor]:
    full, dtype = shape(chance, 1), chance.choice(ALL)
    axis, parts = axis_of(chance, len(full)), []
    for _ in range(chance.randint(1, 3)):
        full[axis] = chance.randint(0, 3)
        parts.append(tensor(chance, full, dtype))
    return parts, axis, torch.concatenate(parts, axis)


@kernel_sample("ConcatV2")
def concat(chance: random.Random) -> Case:
    parts, axis, expected = _parts(chance)
    return Case([parts, size(axis)], {}, expected)


@kernel_sample("Concat")
def concat_axis_first(chance: random.Random) -> Case:
    parts, axis, expected = _parts(chance)
    return Case([size(axis), parts], {}, expected)


@kernel_sample("ConcatD", "ConcatV2D")
def concat_attribute(chance: random.Random) -> Case:
    parts, axis, expected = _parts(chance)
    return Case([parts], {"concat_dim": axis}, expected)


@kernel_sample("Pack")
def pack(chance: random.Random) -> Case:
    full, dtype = shape(chance, most=3), chance.choice(ALL)
    parts = [tensor(chance, full, dtype) for _ in range(chance.randint(1, 3))]
    axis = chance.randint(-len(full) - 1, len(full))
    return Case([parts], {"axis": axis}, torch.stack(parts, axis))
