"""Elements read and written by index, sorted and counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from support.kernel_samples.base import (
    ALL,
    FLOATS,
    GE_NUMBERS,
    INTEGERS,
    NUMBERS,
    Case,
    axis_of,
    gradient,
    kernel_sample,
    plain,
    shape,
    size,
    sizes,
    tensor,
    whole,
)  # fmt: skip

INDICES = (torch.int32, torch.int64)


def _picks(chance: random.Random, count: int, full: list[int], negative: bool = False) -> torch.Tensor:
    return torch.randint(-count if negative else 0, count, full, dtype=chance.choice(INDICES))


@kernel_sample("Gather")
def gather(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance, 1, zeros=False), chance.choice(ALL))
    if chance.random() < 0.4:
        return _batched(chance, x)
    negative = chance.random() < 0.5
    picks = _picks(chance, x.size(0), shape(chance, most=2), negative)
    return Case([x, picks], {"negative_index_support": negative}, x[picks.long()])


def _batched(chance: random.Random, x: torch.Tensor) -> Case:
    """Row by row: the first dimensions of both count batches."""
    count = chance.randint(1, x.dim())
    x = x.unsqueeze(count).expand([*x.shape[:count], 3, *x.shape[count:]]).contiguous()
    picks = _picks(chance, 3, [*x.shape[:count], *shape(chance, most=1)])
    batches = x.shape[:count]
    expected = x.new_empty([*picks.shape, *x.shape[count + 1 :]])
    for at in np.ndindex(*batches):
        expected[at] = x[at][picks[at].long()]
    return Case([x, picks], {"batch_dims": count}, expected)


@kernel_sample("GatherV2")
def gather_axis(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance, 1, zeros=False), chance.choice(ALL))
    axis, negative = axis_of(chance, x.dim()), chance.random() < 0.5
    picks = _picks(chance, x.size(axis), shape(chance, most=2), negative)
    expected = x[(slice(None),) * (axis % x.dim()) + (picks.long(),)]
    return Case([x, picks, size(axis)], {"negative_index_support": negative}, expected)


@kernel_sample("GatherElements")
def gather_elements(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance, 1, zeros=False), chance.choice(ALL))
    axis = axis_of(chance, x.dim())
    full = list(x.shape)
    full[axis] = chance.randint(0, 4)
    index = _picks(chance, x.size(axis), full)
    numbers = torch.arange(x.numel()).reshape(x.shape).numpy()
    expected = x.reshape(-1)[torch.from_numpy(np.take_along_axis(numbers, index.long().numpy(), axis))]
    return Case([x, index], {"dim": axis}, expected)


def _random_coordinates(chance: random.Random, x: torch.Tensor, unique: bool) -> torch.Tensor:
    """Rows of indices into the first dimensions of a tensor."""
    depth = chance.randint(1, x.dim())
    every = list(np.ndindex(*x.shape[:depth]))
    count = chance.randint(1, len(every))
    rows = chance.sample(every, count) if unique else chance.choices(every, k=count)
    return torch.tensor(rows, dtype=chance.choice(INDICES)).reshape(count, depth)


@kernel_sample("GatherNd")
def gather_nd(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance, 1, zeros=False), chance.choice(ALL))
    coordinates = _random_coordinates(chance, x, unique=False)
    return Case([x, coordinates], {}, torch.stack([x[tuple(coordinate)] for coordinate in coordinates.tolist()]))


def _indexed(chance: random.Random) -> tuple[torch.Tensor, list[int], list[torch.Tensor], Any]:
    """A tensor, which dimensions are indexed, and by what; and the same as an index of NumPy."""
    x = tensor(chance, shape(chance, 1, zeros=False), chance.choice((torch.float32, torch.int32)))
    mask = [chance.randint(0, 1) for _ in x.shape]
    mask[chance.randrange(x.dim())] = 1
    full = shape(chance, most=2)
    picks = [torch.randint(-length, length, full) for length, chosen in zip(x.shape, mask, strict=True) if chosen]
    following = iter(picks)
    where = tuple(next(following).numpy() if chosen else slice(None) for chosen in mask)
    return x, mask, picks, where


@kernel_sample("Index")
def index(chance: random.Random) -> Case:
    x, mask, picks, where = _indexed(chance)
    return Case([x, sizes(mask), sizes([]), picks], {}, torch.from_numpy(np.asarray(x.numpy()[where])))


@kernel_sample("IndexByTensor")
def index_by_tensor(chance: random.Random) -> Case:
    x, mask, picks, where = _indexed(chance)
    return Case([x, picks], {"indices_mask": mask}, torch.from_numpy(np.asarray(x.numpy()[where])))


@kernel_sample("IndexPutV2")
def index_put(chance: random.Random) -> Case:
    x, mask, picks, where = _indexed(chance)
    x, accumulate = whole(x.shape, x.dtype), chance.random() < 0.5
    target = x.numpy().copy()
    if accumulate:
        value = whole(np.asarray(target[where]).shape, x.dtype)
        np.add.at(target, where, value.numpy())
    else:
        # Of several values for one index, any may be the last.
        value = torch.tensor(3, dtype=x.dtype)
        target[where] = 3
    return Case([x, value, sizes(mask), sizes([]), picks], {"accumulate": accumulate}, torch.from_numpy(target))


@kernel_sample("MaskedSelect")
def masked_select(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(ALL))
    mask = tensor(chance, x.shape, torch.bool)
    return Case([x, mask], {}, x.reshape(-1)[mask.reshape(-1)])


@kernel_sample("MaskedScatter")
def masked_scatter(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(ALL))
    mask, updates = tensor(chance, x.shape, torch.bool), tensor(chance, x.shape, x.dtype)
    expected = x.clone().reshape(-1)
    expected[mask.reshape(-1)] = updates.reshape(-1)[: int(mask.sum())]
    return Case([x, mask, updates], {}, expected.reshape(x.shape))


def _nonzero_coordinates(x: torch.Tensor) -> torch.Tensor:
    coordinates = [at for at in np.ndindex(*x.shape) if bool(x[at] != 0)]
    return torch.tensor(coordinates, dtype=torch.int64).reshape(len(coordinates), x.dim())


@kernel_sample("NonZero")
def non_zero(chance: random.Random) -> Case:
    x, transpose = tensor(chance, shape(chance), chance.choice(ALL)), chance.random() < 0.5
    dtype = chance.choice(INDICES)
    coordinates = _nonzero_coordinates(x).to(dtype)
    return Case(
        [x], {"transpose": transpose, "dtype": GE_NUMBERS[dtype]}, coordinates.t() if transpose else coordinates
    )


@kernel_sample("Where")
def where_true(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(ALL))
    return Case([x], {}, _nonzero_coordinates(x))


@kernel_sample("SearchSorted")
def search_sorted(chance: random.Random) -> Case:
    row, values = torch.randint(-9, 9, [chance.randint(0, 6)]), torch.randint(-9, 9, shape(chance, 1))
    right, dtype = chance.random() < 0.5, chance.choice(INDICES)
    order = np.argsort(row.numpy(), kind="stable")
    ordered = np.sort(row.numpy())
    expected = np.searchsorted(ordered, values.numpy(), side="right" if right else "left")
    inputs = [torch.from_numpy(ordered), values]
    if chance.random() < 0.5:
        inputs = [row, values, torch.from_numpy(order)]
    return Case(inputs, {"right": right, "dtype": GE_NUMBERS[dtype]}, torch.from_numpy(np.asarray(expected)).to(dtype))


@kernel_sample("EmbeddingDenseGrad", "EmbeddingDenseGradV2")
def embedding_dense_grad(chance: random.Random) -> Case:
    count, width, padding = chance.randint(1, 5), chance.randint(1, 3), chance.choice((-1, 0))
    indices = _picks(chance, count, shape(chance, 1, most=2))
    grad, by_frequency = whole([*indices.shape, width], torch.float32), chance.random() < 0.5

    def embed(weight: torch.Tensor) -> torch.Tensor:
        ignored = None if padding < 0 else padding
        return torch.nn.functional.embedding(indices, weight, ignored, scale_grad_by_freq=by_frequency)

    attributes = {"num_weights": count, "padding_idx": padding, "scale_grad_by_freq": by_frequency}
    return Case([grad, indices], attributes, gradient(embed, 0, grad, plain([count, width])))


@kernel_sample("ScatterElements")
def scatter_elements(chance: random.Random) -> Case:
    data = whole(shape(chance, 1, zeros=False), chance.choice((torch.float32, torch.int32, torch.float16)))
    axis, reduction = axis_of(chance, data.dim()), chance.choice(("none", "add", "mul", "max", "min"))
    length = data.size(axis)
    order = torch.argsort(torch.rand(data.shape), axis).narrow(axis, 0, chance.randint(0, length))
    indices = (order - chance.choice((0, length))).to(chance.choice(INDICES))
    updates = whole(indices.shape, data.dtype)
    combine = {"none": lambda _, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    expected = data.numpy().copy()
    before = np.take_along_axis(expected, order.numpy(), axis)
    np.put_along_axis(expected, order.numpy(), combine[reduction](before, updates.numpy()), axis)
    return Case([data, indices, updates], {"axis": axis, "reduction": reduction}, torch.from_numpy(expected))


@kernel_sample("ScatterUpdate")
def scatter_update(chance: random.Random) -> Case:
    var = tensor(chance, shape(chance, 1, zeros=False), chance.choice(NUMBERS))
    rows = chance.sample(range(var.size(0)), chance.randint(1, var.size(0)))
    updates = tensor(chance, [len(rows), *var.shape[1:]], var.dtype)
    expected = var.clone()
    for row, update in zip(rows, updates, strict=True):
        expected[row] = update
    return Case([var, torch.tensor(rows, dtype=chance.choice(INDICES)), updates], {}, expected)


@kernel_sample("TensorScatterUpdate")
def tensor_scatter_update(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance, 1, zeros=False), chance.choice(ALL))
    coordinates = _random_coordinates(chance, x, unique=True)
    updates = tensor(chance, [coordinates.size(0), *x.shape[coordinates.size(1) :]], x.dtype)
    expected = x.clone()
    for coordinate, update in zip(coordinates.tolist(), updates, strict=True):
        expected[tuple(coordinate)] = update
    return Case([x, coordinates, updates], {}, expected)


def _extremes(op_type: str, choose: Callable[..., torch.Tensor]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x = tensor(chance, shape(chance, 1, zeros=False), chance.choice(NUMBERS))
        coordinates = _random_coordinates(chance, x, unique=False)
        updates = tensor(chance, [coordinates.size(0), *x.shape[coordinates.size(1) :]], x.dtype)
        expected = x.clone()
        for coordinate, update in zip(coordinates.tolist(), updates, strict=True):
            expected[tuple(coordinate)] = choose(expected[tuple(coordinate)], update)
        return Case([x, coordinates, updates], {}, expected)


_extremes("TensorScatterMax", torch.maximum)
_extremes("TensorScatterMin", torch.minimum)


@kernel_sample("ScatterNd")
def scatter_nd(chance: random.Random) -> Case:
    full = shape(chance, 1, zeros=False)
    blank = torch.zeros(full, dtype=chance.choice((torch.float32, torch.int32, torch.int64)))
    coordinates = _random_coordinates(chance, blank, unique=False)
    updates = whole([coordinates.size(0), *full[coordinates.size(1) :]], blank.dtype)
    for coordinate, update in zip(coordinates.tolist(), updates, strict=True):
        blank[tuple(coordinate)] += update
    return Case([coordinates, updates, sizes(full)], {}, blank)


@kernel_sample("InplaceIndexAdd")
def index_add(chance: random.Random) -> Case:
    var = whole(shape(chance, 1, zeros=False), chance.choice(NUMBERS))
    axis = axis_of(chance, var.dim())
    picks = _picks(chance, var.size(axis), [chance.randint(0, 4)])
    full = list(var.shape)
    full[axis] = picks.size(0)
    updates, alpha = whole(full, var.dtype), chance.choice((None, 2))
    expected = var.clone().transpose(0, axis)
    for at, update in zip(picks.tolist(), updates.transpose(0, axis), strict=True):
        expected[at] += update if alpha is None else update * alpha
    scale = None if alpha is None else torch.tensor(alpha, dtype=var.dtype)
    return Case([var, picks, updates, scale], {"axis": axis}, expected.transpose(0, axis))


@kernel_sample("Bincount")
def bincount(chance: random.Random) -> Case:
    count = chance.randint(1, 6)
    array = torch.randint(0, count, [chance.randint(0, 9)], dtype=torch.int32)
    if chance.random() < 0.5:
        counted = np.bincount(array.numpy(), minlength=count).astype(np.int32)
        return Case([array, size(count), torch.zeros(0)], {}, torch.from_numpy(counted))
    weights = whole(array.shape, chance.choice(FLOATS[::3]))
    counted = np.bincount(array.numpy(), weights.numpy(), count)
    expected = torch.from_numpy(counted).to(weights.dtype if weights.numel() else torch.int32)
    return Case([array, size(count), weights], {}, expected)


@kernel_sample("Histogram")
def histogram(chance: random.Random) -> Case:
    dtype = chance.choice((torch.float32, torch.float16, torch.int32))
    x, bins = whole(shape(chance, 1), dtype), chance.choice((2, 4, 8))
    counted, _ = np.histogram(x.double().numpy(), bins, (-2.0, 2.0))
    kind = torch.float32 if dtype.is_floating_point else torch.int32
    return Case([x], {"bins": bins, "min": -2.0, "max": 2.0}, torch.from_numpy(counted).to(kind))


def _different(chance: random.Random, full: list[int]) -> torch.Tensor:
    """All numbers are different, so that there is one order."""
    count = int(np.prod(full))
    return (torch.randperm(count).reshape(full) - count // 2).to(chance.choice((*FLOATS, *INTEGERS[3:])))


@kernel_sample("Sort")
def sort(chance: random.Random) -> Case:
    stable, descending = chance.random() < 0.5, chance.random() < 0.5
    full = shape(chance, 1, most=3)
    x = torch.randint(0, 3, full).float() if stable else _different(chance, full)
    axis = axis_of(chance, x.dim())
    keys = x.double().numpy()
    order = torch.from_numpy(np.argsort(-keys if descending else keys, axis, kind="stable"))
    expected = (torch.take_along_dim(x, order, axis), order.int())
    return Case([x], {"axis": axis, "descending": descending, "stable": stable}, expected)


@kernel_sample("TopKV2")
def top_k(chance: random.Random) -> Case:
    x = _different(chance, shape(chance, 1, most=3))
    axis, largest = axis_of(chance, x.dim()), chance.random() < 0.5
    count = chance.randint(0, x.size(axis))
    keys = x.double().numpy()
    order = torch.from_numpy(np.argsort(-keys if largest else keys, axis, kind="stable")).narrow(axis, 0, count)
    expected = (torch.take_along_dim(x, order, axis), order.int())
    return Case([x, size(count)], {"dim": axis, "largest": largest}, expected)


@kernel_sample("EmbeddingBag")
def embedding_bag(chance: random.Random) -> Case:
    """Rows of each bag added, averaged, or the largest of each column; the other results are indices."""
    weight, mode = whole([5, 3]), chance.choice(("sum", "mean", "max"))
    indices = torch.tensor([chance.randrange(5) for _ in range(6)])
    starts = [0, 2, 5]
    bags = [indices[a:b] for a, b in zip(starts, (*starts[1:], 6), strict=True)]
    total = torch.stack([weight[bag].sum(0) for bag in bags])
    counts = torch.tensor([[len(bag)] for bag in bags])
    largest = torch.stack([weight[bag].amax(0) for bag in bags])
    y = {"sum": total, "mean": total / counts, "max": largest}[mode]
    inputs = (weight, indices, torch.tensor(starts))
    rest = torch.ops.aten._embedding_bag(*inputs, False, ("sum", "mean", "max").index(mode))[1:]
    return Case(inputs, {"mode": mode}, (y, *rest))
