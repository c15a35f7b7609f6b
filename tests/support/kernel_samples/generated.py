"""Tensors made from shapes and numbers, and the shapes of tensors."""

from __future__ import annotations

import random

import numpy as np
import torch

from support.kernel_samples.base import (
    ALL,
    FLOATS,
    GE_NUMBERS,
    NUMBERS,
    Case,
    kernel_sample,
    plain,
    shape,
    size,
    sizes,
    tensor,
)


@kernel_sample("Fill")
def fill(chance: random.Random) -> Case:
    full, value = shape(chance), tensor(chance, chance.choice(([], [1])), chance.choice(ALL))
    return Case([sizes(full), value], {}, torch.full(full, value.item(), dtype=value.dtype))


@kernel_sample("ZerosLike")
def zeros_like(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(ALL))
    return Case([x], {}, torch.zeros_like(x))


@kernel_sample("OnesLike")
def ones_like(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(ALL))
    return Case([x], {}, torch.ones_like(x))


@kernel_sample("Empty")
def empty(chance: random.Random) -> Case:
    """Zeros, which this engine guarantees."""
    full, dtype = shape(chance), chance.choice(list(GE_NUMBERS))
    return Case([sizes(full)], {"dtype": GE_NUMBERS[dtype]}, torch.from_numpy(np.zeros(full)).to(dtype))


@kernel_sample("Range")
def make_range(chance: random.Random) -> Case:
    dtype = chance.choice((torch.int32, torch.int64, torch.float32))
    start, count, delta = chance.randint(-5, 5), chance.randint(0, 6), chance.choice((1, 2, -1, -3))
    numbers = [start + delta * at for at in range(count)]
    limit = start + delta * count
    return Case([size(value, dtype) for value in (start, limit, delta)], {}, torch.tensor(numbers, dtype=dtype))


@kernel_sample("LinSpace")
def lin_space(chance: random.Random) -> Case:
    start, stop, count = chance.uniform(-5, 5), chance.uniform(-5, 5), chance.randint(0, 7)
    expected = torch.from_numpy(np.linspace(start, stop, count)).float()
    return Case([size(start, torch.float32), size(stop, torch.float32), size(count)], {}, expected, bound=2)


@kernel_sample("Eye")
def eye(chance: random.Random) -> Case:
    rows, columns, dtype = chance.randint(1, 5), chance.randint(0, 5), chance.choice(NUMBERS)
    expected = torch.from_numpy(np.eye(rows, columns or None)).to(dtype)
    return Case([], {"num_rows": rows, "num_columns": columns, "dtype": GE_NUMBERS[dtype]}, expected)


@kernel_sample("OneHot")
def one_hot(chance: random.Random) -> Case:
    full, depth = shape(chance, most=3), chance.randint(1, 4)
    x = torch.randint(-1, depth + 1, full, dtype=chance.choice((torch.int32, torch.int64)))
    dtype = chance.choice((*FLOATS, torch.int32))
    on, off = torch.tensor(3, dtype=dtype), torch.tensor(1, dtype=dtype)
    axis = chance.choice((-1, chance.randint(0, len(full))))
    expected = np.stack([np.where(x.numpy() == category, 3, 1) for category in range(depth)], axis)
    return Case([x, size(depth), on, off], {"axis": axis}, torch.from_numpy(expected).to(dtype))


@kernel_sample("Shape")
def shape_of(chance: random.Random) -> Case:
    x, dtype = plain(shape(chance)), chance.choice((torch.int32, torch.int64))
    return Case([x], {"dtype": GE_NUMBERS[dtype]}, torch.tensor(list(x.shape), dtype=dtype))


@kernel_sample("ShapeN")
def shapes_of(chance: random.Random) -> Case:
    xs, dtype = [plain(shape(chance)) for _ in range(chance.randint(1, 3))], chance.choice((torch.int32, torch.int64))
    return Case([xs], {"dtype": GE_NUMBERS[dtype]}, [torch.tensor(list(x.shape), dtype=dtype) for x in xs])


@kernel_sample("Size")
def size_of(chance: random.Random) -> Case:
    x, dtype = plain(shape(chance)), chance.choice((torch.int32, torch.int64))
    return Case([x], {"dtype": GE_NUMBERS[dtype]}, torch.tensor(x.numel(), dtype=dtype))


@kernel_sample("Rank")
def rank_of(chance: random.Random) -> Case:
    x = plain(shape(chance))
    return Case([x], {}, torch.tensor(x.dim(), dtype=torch.int32))


@kernel_sample("Bitcast")
def bitcast(chance: random.Random) -> Case:
    kinds = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32]
    one, other = chance.choice(kinds), chance.choice(kinds)
    full = shape(chance, most=3)
    ratio = other.itemsize // one.itemsize
    if one == torch.int8 and other == torch.int32:
        # Eight elements are int4 then, which have a test of their own.
        ratio = 4
    if ratio > 1:
        full.append(ratio)
    x = torch.randint(0, 255, [*full, one.itemsize], dtype=torch.uint8).view(one).squeeze(-1)
    numpy_type = torch.zeros((), dtype=other).numpy().dtype
    raw = np.frombuffer(x.numpy().tobytes(), numpy_type)
    target_shape = full[:-1] if ratio > 1 else full if ratio == 1 else [*full, one.itemsize // other.itemsize]
    return Case([x], {"type": GE_NUMBERS[other]}, torch.from_numpy(raw.reshape(target_shape).copy()))
