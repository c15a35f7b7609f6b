"""Elements in another shape, order or place, joined and parted."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import torch

from support.kernel_samples.base import ALL, Case, axis_of, shape, size, sizes, tensor, trial


def _any(chance: random.Random, least: int = 0, zeros: bool = True) -> torch.Tensor:
    return tensor(chance, shape(chance, least, zeros=zeros), chance.choice(ALL))


def _by_numbers(x: torch.Tensor, call: Any) -> torch.Tensor:
    """What NumPy does to the numbers of the elements, done to the elements."""
    return x.reshape(-1)[torch.from_numpy(np.array(call(np.arange(x.numel()).reshape(x.shape))))]


@trial("Identity", "TensorMove")
def identity(chance: random.Random) -> Case:
    x = _any(chance)
    return Case([x], {}, x.clone())


@trial("Assign")
def assign(chance: random.Random) -> Case:
    value = _any(chance)
    return Case([torch.zeros_like(value), value], {}, value.clone())


@trial("NoOp")
def no_op(chance: random.Random) -> Case:  # noqa: ARG001
    return Case([], {}, None)


@trial("Reshape")
def reshape(chance: random.Random) -> Case:
    x = _any(chance)
    asked = list(x.shape)
    chance.shuffle(asked)
    expected = x.reshape(asked)
    # A 0 keeps a dimension where it says so of elements; -1 is what is left.
    if asked and x.numel() and chance.random() < 0.5:
        asked[chance.randrange(len(asked))] = -1
    asked = [0 if at < x.dim() and length == x.size(at) and x.numel() else length for at, length in enumerate(asked)]
    return Case([x, sizes(asked)], {}, expected)


@trial("Transpose")
def transpose(chance: random.Random) -> Case:
    x = _any(chance)
    order = chance.sample(range(x.dim()), x.dim())
    return Case([x, sizes(order)], {}, _by_numbers(x, lambda n: n.transpose(order)))


@trial("TransposeD")
def transpose_attribute(chance: random.Random) -> Case:
    x = _any(chance)
    order = chance.sample(range(x.dim()), x.dim())
    return Case([x], {"perm": order}, _by_numbers(x, lambda n: n.transpose(order)))


@trial("FlattenV2")
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


@trial("Squeeze")
def squeeze(chance: random.Random) -> Case:
    x, axes, expected = _squeezed(chance)
    return Case([x], {"axis": axes}, expected)


@trial("SqueezeV3")
def squeeze_input(chance: random.Random) -> Case:
    x, axes, expected = _squeezed(chance)
    return Case([x, sizes(axes) if axes else None], {}, expected)


def _unsqueezed(chance: random.Random, most: int) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    x = _any(chance)
    rank = x.dim() + chance.randint(1, most)
    axes = [axis - chance.choice((0, rank)) for axis in chance.sample(range(rank), rank - x.dim())]
    return x, axes, _by_numbers(x, lambda n: np.expand_dims(n, tuple(axes)))


@trial("Unsqueeze")
def unsqueeze(chance: random.Random) -> Case:
    x, axes, expected = _unsqueezed(chance, 2)
    return Case([x], {"axes": axes}, expected)


@trial("UnsqueezeV3")
def unsqueeze_input(chance: random.Random) -> Case:
    x, axes, expected = _unsqueezed(chance, 2)
    return Case([x, sizes(axes)], {}, expected)


@trial("ExpandDims")
def expand_dims(chance: random.Random) -> Case:
    x, axes, expected = _unsqueezed(chance, 1)
    return Case([x, size(axes[0])], {}, expected)


@trial("BroadcastTo", "Expand")
def broadcast_to(chance: random.Random) -> Case:
    full = shape(chance)
    x = tensor(chance, [chance.choice((length, 1)) for length in full[chance.randint(0, len(full)) :]], torch.float32)
    added = len(full) - x.dim()
    asked = [
        -1 if at >= added and x.size(at - added) == length and chance.random() < 0.3 else length
        for at, length in enumerate(full)
    ]
    return Case([x, sizes(asked)], {}, _by_numbers(x, lambda n: np.broadcast_to(n, full)))


@trial("Tile")
def tile(chance: random.Random) -> Case:
    x = _any(chance)
    times = [chance.randint(0, 3) for _ in range(x.dim() + chance.randint(0, 1))]
    return Case([x, sizes(times)], {}, _by_numbers(x, lambda n: np.tile(n, times)))


def _view(chance: random.Random, count: int) -> tuple[list[int], list[int], int, np.ndarray]:  # type: ignore[type-arg]
    """Sizes, strides and an offset within so many elements, no two of one place; and the places."""
    full = [chance.randint(1, 3), chance.randint(1, 3)]
    strides = chance.choice(([full[1], 1], [1, full[0]]))
    offset = chance.randint(0, count - full[0] * full[1])
    rows, columns = np.indices(full)
    return full, strides, offset, offset + rows * strides[0] + columns * strides[1]


@trial("AsStrided")
def as_strided(chance: random.Random) -> Case:
    x = tensor(chance, [3, 4], chance.choice(ALL))
    full, strides, offset, places = _view(chance, 12)
    given = x.t().contiguous().t() if chance.random() < 0.3 else x
    return Case([given, sizes(full), sizes(strides), sizes([offset])], {}, x.reshape(-1)[torch.from_numpy(places)])


@trial("ViewCopy")
def view_copy(chance: random.Random) -> Case:
    dtype = chance.choice(ALL)
    dst, src = tensor(chance, [3, 4], dtype), tensor(chance, [12], dtype)
    full, strides, offset, places = _view(chance, 12)
    first = chance.randint(0, 12 - places.size)
    expected = dst.clone().reshape(-1)
    expected[torch.from_numpy(places)] = src[first : first + places.size].reshape(full)
    to = [sizes(full), sizes(strides), size(offset)]
    taken = [sizes(full), sizes([full[1], 1]), size(first)]
    return Case([dst, *to, src, *taken], {}, expected.reshape(3, 4))


@trial("StridedSlice")
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
    places = tuple(
        first[at]
        if masks["shrink_axis_mask"] >> at & 1
        else slice(
            None if masks["begin_mask"] >> at & 1 else first[at],
            None if masks["end_mask"] >> at & 1 else last[at],
            step[at],
        )
        for at in range(x.dim())
    )
    return Case([x, sizes(first), sizes(last), sizes(step)], masks, _by_numbers(x, lambda n: n[places]))


@trial("StridedSliceV2")
def strided_slice_axes(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axes = chance.sample(range(x.dim()), chance.randint(1, x.dim()))
    places: list[Any] = [slice(None)] * x.dim()
    for axis in axes:
        places[axis] = slice(chance.randint(-4, 4), chance.randint(-4, 5), chance.choice((1, 2)))
    given = [[places[axis].start for axis in axes], [places[axis].stop for axis in axes]]
    signed = [axis - chance.choice((0, x.dim())) for axis in axes]
    steps = [places[axis].step for axis in axes]
    expected = _by_numbers(x, lambda n: n[tuple(places)])
    return Case([x, *map(sizes, (*given, signed, steps))], {}, expected)


@trial("Slice")
def slice_sizes(chance: random.Random) -> Case:
    x = _any(chance)
    first = [chance.randint(0, length) for length in x.shape]
    count = [chance.choice((-1, chance.randint(0, length - at))) for at, length in zip(first, x.shape, strict=True)]
    ends = [length if n == -1 else at + n for at, n, length in zip(first, count, x.shape, strict=True)]
    places = tuple(itertools.starmap(slice, zip(first, ends, strict=True)))
    return Case([x, sizes(first), sizes(count)], {}, _by_numbers(x, lambda n: n[places]))


@trial("SplitV")
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


@trial("Split")
def split(chance: random.Random) -> Case:
    x, axis, count, parts = _equal_parts(chance)
    return Case([size(axis), x], {"num_split": count}, parts)


@trial("SplitD")
def split_attribute(chance: random.Random) -> Case:
    x, axis, count, parts = _equal_parts(chance)
    return Case([x], {"split_dim": axis, "num_split": count}, parts)


@trial("Unpack")
def unpack(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axis = axis_of(chance, x.dim())
    return Case([x], {"num": x.size(axis), "axis": axis}, [x.select(axis, at) for at in range(x.size(axis))])


@trial("ReverseV2")
def reverse(chance: random.Random) -> Case:
    x = _any(chance)
    axes = chance.sample(range(x.dim()), chance.randint(0, x.dim()))
    signed = [axis - chance.choice((0, x.dim())) for axis in axes]
    return Case([x, sizes(signed)], {}, _by_numbers(x, lambda n: np.flip(n, tuple(axes))))


@trial("Roll")
def roll(chance: random.Random) -> Case:
    x = _any(chance, least=1)
    axes = chance.sample(range(x.dim()), chance.randint(0, x.dim()))
    shifts = [chance.randint(-5, 5) for _ in axes] or [chance.randint(-5, 5)]
    expected = _by_numbers(x, lambda n: np.roll(n, shifts, tuple(axes)) if axes else np.roll(n, shifts[0]))
    return Case([x], {"shifts": shifts, "dims": axes}, expected)


def _triangle(op_type: str, call: Any) -> None:
    @trial(op_type)
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


@trial("ConcatV2")
def concat(chance: random.Random) -> Case:
    parts, axis, expected = _parts(chance)
    return Case([parts, size(axis)], {}, expected)


@trial("Concat")
def concat_axis_first(chance: random.Random) -> Case:
    parts, axis, expected = _parts(chance)
    return Case([size(axis), parts], {}, expected)


@trial("ConcatD", "ConcatV2D")
def concat_attribute(chance: random.Random) -> Case:
    parts, axis, expected = _parts(chance)
    return Case([parts], {"concat_dim": axis}, expected)


@trial("Pack")
def pack(chance: random.Random) -> Case:
    full, dtype = shape(chance, most=3), chance.choice(ALL)
    parts = [tensor(chance, full, dtype) for _ in range(chance.randint(1, 3))]
    axis = chance.randint(-len(full) - 1, len(full))
    return Case([parts], {"axis": axis}, torch.stack(parts, axis))
