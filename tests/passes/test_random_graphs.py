"""Graphs put together at random: what they compute with all passes and without keeps every bit.

A sample runs with the other tests; ``GRAPH_QUANT_RANDOM_GRAPHS=5000 pytest tests/passes/test_random_graphs.py`` tries
more.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_quant import passes
from graph_quant.ge.values import word_of

from support.building import Building, results
from support.tensors import SEED

GRAPHS = int(os.environ.get("GRAPH_QUANT_RANDOM_GRAPHS", "80"))
BATCHES = 2
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int64, torch.int32)
DTYPES = (*FLOATS, *INTEGERS, torch.int8, torch.uint8, torch.bool)
# A NaN with a payload, zeros of both signs, an infinity, and what half precision cannot hold.
ODD = torch.tensor([0x7FC01234, -0x80000000, 0, 0x7F800000, 0x47800080], dtype=torch.int32).view(torch.float32)
LARGE = (-(2**63), -(2**40), -(2**31) - 1, -(2**31), -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
LARGEST = 600


class Maker:
    """A graph that grows, with what each result is: nodes are chosen so that they may stand where they stand."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)
        self.made = Building()
        self.values: dict[str, torch.Tensor] = {}
        self.inputs: list[torch.Tensor] = []
        for _ in range(self.draw.randint(1, 3)):
            self._input()

    def graph(self) -> Any:
        """Some nodes, and outputs among which are inputs, constants and the same result twice."""
        for _ in range(self.draw.randint(4, 18)):
            self.draw.choice(MAKERS)(self)
        names = list(self.values)
        outputs = [*self.draw.choices(names, k=self.draw.randint(1, 3)), *names[-3:]]
        return self.made.output(*outputs)

    def _input(self) -> None:
        shape = [self.draw.choice((1, 2, 3, 4, 8)) for _ in range(self.draw.randint(0, 3))]
        value = self.filled(shape, self.draw.choice((torch.float32, torch.float16, torch.bfloat16, torch.int64)))
        dims = [self.draw.choice((size, -1)) for size in shape]
        self.values[self.made.data(*dims, dtype=word_of(value.dtype))] = value
        self.inputs.append(value)

    def filled(self, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        count = math.prod(shape)
        if dtype in INTEGERS:
            large = [value for value in LARGE if dtype is torch.int64 or abs(value) < 2**31]
            return torch.tensor(self.draw.choices(large, k=count), dtype=dtype).reshape(shape)
        places = torch.randint(0, 2 * len(ODD), (count,), generator=self.numbers)
        ordinary = torch.randn(count, generator=self.numbers)
        return torch.where(places < len(ODD), ODD[places % len(ODD)], ordinary).to(dtype).reshape(shape)

    def some(self, holds: Callable[[torch.Tensor], bool] = lambda _: True) -> str | None:
        fitting = [name for name, value in self.values.items() if holds(value)]
        return self.draw.choice(fitting) if fitting else None

    def add(self, value: torch.Tensor, kind: str, fed: dict[str, str], **attributes: Any) -> str:
        name = self.made.op(kind, fed, **attributes)
        self.values[name] = value
        return name

    def const(self, value: Any, dtype: torch.dtype = torch.int64) -> str:
        name = self.made.const(value, dtype)
        self.values[name] = torch.as_tensor(value, dtype=dtype)
        return name


def constant(maker: Maker) -> None:
    shape = [maker.draw.choice((1, 2, 3)) for _ in range(maker.draw.randint(0, 2))]
    maker.const(maker.filled(shape, dtype := maker.draw.choice((*INTEGERS, torch.float32, torch.float16))), dtype)


def unary(maker: Maker) -> None:
    kind = maker.draw.choice(("Neg", "Identity", "Abs"))
    if (x := maker.some(lambda value: value.dtype in (*FLOATS, *INTEGERS))) is not None:
        maker.add(maker.values[x], kind, {"x": x})


def cast(maker: Maker) -> None:
    x = maker.some()
    for _ in range(maker.draw.randint(1, 3)):
        dtype = maker.draw.choice(DTYPES)
        if x is not None:
            x = maker.add(maker.values[x].to(dtype), "Cast", {"x": x}, dst_type=word_of(dtype))


def arithmetic(maker: Maker) -> None:
    one = maker.some(lambda value: value.dtype in (*FLOATS, *INTEGERS))
    if one is None:
        return
    x = maker.values[one]

    def fits(value: torch.Tensor) -> bool:
        sizes = zip(reversed(value.shape), reversed(x.shape), strict=False)
        return value.dtype == x.dtype and all(a == b or 1 in (a, b) for a, b in sizes)

    other = maker.some(fits)
    kind, compute = maker.draw.choice((("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul)))
    if other is not None and (value := compute(x, maker.values[other])).numel() <= LARGEST:
        maker.add(value, kind, {"x1": one, "x2": other})


def reshape(maker: Maker) -> None:
    if (x := maker.some()) is None:
        return
    value = maker.values[x]
    left, target = value.numel(), list[int]()
    while left > 1 and len(target) < 3:
        target.append(maker.draw.choice([size for size in range(1, left + 1) if left % size == 0]))
        left //= target[-1]
    target.insert(maker.draw.randint(0, len(target)), left)
    if maker.draw.random() < 0.5:
        stated = list(target)
        for axis in range(min(len(target), value.dim())):
            if target[axis] == value.size(axis) and maker.draw.random() < 0.4:
                stated[axis] = 0
        if maker.draw.random() < 0.5:
            stated[maker.draw.randrange(len(stated))] = -1
        shape = maker.made.const(stated)
    else:
        shape = maker.made.op("Pack", {f"x{at}": sized(maker, each) for at, each in enumerate(target)}, N=len(target))
    maker.add(value.reshape(target), "Reshape", {"x": x, "shape": shape})


def sized(maker: Maker, size: int) -> str:
    """A size as a scalar: of a tensor that has it, or a constant."""
    x = maker.some(lambda value: size in value.shape)
    if x is None or maker.draw.random() < 0.3:
        return maker.made.const(size)
    at = maker.made.const(list(maker.values[x].shape).index(size))
    return maker.made.op("Gather", {"x": maker.made.op("Shape", {"x": x}, dtype="int64"), "indices": at})


def units(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dim() < 4)) is None:
        return
    value = maker.values[x]
    if 1 in value.shape and maker.draw.random() < 0.5:
        axis = maker.draw.choice([at for at, size in enumerate(value.shape) if size == 1])
        maker.add(value.squeeze(axis), "Squeeze", {"x": x}, axis=[axis - maker.draw.choice((0, value.dim()))])
    else:
        axis = maker.draw.randint(0, value.dim())
        maker.add(value.unsqueeze(axis), "Unsqueeze", {"x": x}, axes=[axis])


def transpose(maker: Maker) -> None:
    x = maker.some(lambda value: value.dim() > 1)
    for _ in range(maker.draw.randint(1, 2)):
        if x is not None:
            order = maker.draw.sample(range(maker.values[x].dim()), maker.values[x].dim())
            value = maker.values[x].permute(order)
            x = maker.add(value, "Transpose", {"x": x, "perm": maker.made.const(order)})


def product(maker: Maker) -> None:
    x = maker.some(lambda value: value.dim() == 2 and value.dtype is torch.float32)
    if x is None:
        return
    value = maker.values[x]
    turned = maker.made.op("Transpose", {"x": x, "perm": maker.made.const([1, 0])})
    kind, names = maker.draw.choice((("MatMulV2", "transpose"), ("BatchMatMul", "adj")))
    maker.add(value @ value.t(), kind, {"x1": x, "x2": turned}, **{f"{names}_x1": False, f"{names}_x2": False})


def reduced(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dtype in (torch.float32, *INTEGERS))) is None:
        return
    value, keep = maker.values[x], maker.draw.random() < 0.5
    axis = maker.draw.randrange(max(value.dim(), 1))
    fed = {"x": x, "axes": maker.made.const([axis])}
    maker.add(value.sum(axis, keepdim=keep, dtype=value.dtype), "ReduceSum", fed, keep_dims=keep)


def joined(maker: Maker) -> None:
    x = maker.some(lambda value: value.dim() > 0 and value.numel() <= LARGEST // 2)
    if x is None:
        return
    value = maker.values[x]
    other = maker.some(lambda each: each.shape == value.shape and each.dtype == value.dtype) or x
    axis = maker.draw.randrange(value.dim())
    fed = {"x0": x, "x1": other, "concat_dim": maker.made.const(axis)}
    maker.add(torch.cat([value, maker.values[other]], axis), "ConcatV2", fed, N=2)


def chosen(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dim() == 1 and value.dtype in INTEGERS)) is None:
        return
    value = maker.values[x]
    places = maker.draw.choice((maker.draw.randrange(len(value)), [maker.draw.randrange(len(value)) for _ in "ab"]))
    maker.add(value[torch.tensor(places)], "Gather", {"x": x, "indices": maker.made.const(places)})


def shape_of(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dim() > 0)) is not None:
        dtype = maker.draw.choice(INTEGERS)
        maker.add(torch.tensor(maker.values[x].shape, dtype=dtype), "Shape", {"x": x}, dtype=word_of(dtype))


def filled(maker: Maker) -> None:
    x, like = maker.some(lambda value: value.dim() == 0), maker.some(lambda value: value.dim() > 0)
    if x is not None and like is not None:
        dims = maker.made.op("Shape", {"x": like}, dtype="int64")
        value = maker.values[x].expand(maker.values[like].shape)
        kind, fed = maker.draw.choice((("Fill", {"dims": dims, "value": x}), ("BroadcastTo", {"x": x, "shape": dims})))
        maker.add(value, kind, fed)


def bits(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dtype in (torch.float32, torch.int32))) is not None:
        dtype = torch.int32 if maker.values[x].dtype is torch.float32 else torch.float32
        maker.add(maker.values[x].clone().view(dtype), "Bitcast", {"x": x}, type=word_of(dtype))


def written(maker: Maker) -> None:
    """A buffer, views of it, and a node that writes to it or to one of them; nothing reads what was there before."""
    x = maker.some(lambda value: value.dtype is torch.float32 and value.dim() > 0)
    if x is None:
        return
    value = maker.values[x]
    names = [maker.made.op("Neg", {"x": x})]
    for _ in range(maker.draw.randint(0, 2)):
        names.append(_again(maker, names[-1], value))
    kept = maker.add(value, "Abs", {"x": maker.draw.choice(names)})
    copied = maker.add(value, "Cast", {"x": maker.draw.choice(names)}, dst_type="float32")
    update = maker.made.const(torch.full((1, *value.shape[1:]), 7.0), torch.float32)
    index = maker.made.const([[maker.draw.randrange(value.size(0))]])
    fed = {"var": maker.draw.choice(names), "indices": index, "updates": update}
    result = maker.made.op("ScatterNdUpdate", fed, outputs=("var",))
    maker.made.control(kept, result)
    maker.made.control(copied, result)
    maker.values[result] = value


def _again(maker: Maker, name: str, value: torch.Tensor) -> str:
    if maker.draw.random() < 0.5:
        return maker.made.op("Identity", {"x": name})
    return maker.made.op("Reshape", {"x": name, "shape": maker.made.const(list(value.shape))})


MAKERS = [
    constant, unary, cast, cast, arithmetic, arithmetic, reshape, reshape, reshape, units, units, transpose, product,
    reduced, joined, chosen, shape_of, shape_of, filled, bits, written,
]  # fmt: skip


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Which NaN a cast gives, GE does not say: one is as good as another."""
    if (one.dtype, one.shape) != (other.dtype, other.shape) or not torch.equal(one.isnan(), other.isnan()):
        return False
    numbers = [torch.where(each.isnan(), 0, each).clone(memory_format=torch.contiguous_format) for each in (one, other)]
    return bytes(numbers[0].untyped_storage()) == bytes(numbers[1].untyped_storage())


@pytest.mark.parametrize("batch", range(BATCHES))
def test_passes_keep_every_bit(batch: int) -> None:
    for seed in range(SEED * GRAPHS + batch, SEED * GRAPHS + GRAPHS, BATCHES):
        maker = Maker(seed)
        graph = maker.graph()
        before = results(graph, *maker.inputs)
        shapes = [tuple(maker.values[name].shape) for name in graph.op[-1].input]
        assert [tuple(each.shape) for each in before] == shapes, f"seed {seed}: the graph is not what was meant"
        passes.run(graph, passes.NAMES)
        after = results(graph, *maker.inputs)
        assert all(map(same_bits, before, after)), f"seed {seed}"
