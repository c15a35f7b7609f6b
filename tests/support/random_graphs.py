"""Random graphs of nodes that passes change or must keep."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from graph_quant.ge.values import ge_dtype_name
from graph_quant.passes.inference import InputInfo
from graph_quant.passes.sizes import number, symbol

from .graph_builder import GraphBuilder

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int64, torch.int32)
DTYPES = (*FLOATS, *INTEGERS, torch.int16, torch.int8, torch.uint8, torch.bool)
# A NaN with a payload, zeros of both signs, an infinity, and numbers beyond half precision.
ODD = torch.tensor([0x7FC01234, -0x80000000, 0, 0x7F800000, 0x47800080], dtype=torch.int32).view(torch.float32)
LARGE = (-(2**63), -(2**40), -(2**31) - 1, -(2**31), -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
LARGEST = 600
SIZES = (0, 1, 1, 2, 2, 3, 4, 8, 8)


class Maker:
    """Builds a random valid graph, and keeps the expected value of each result."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)
        self.builder = GraphBuilder()
        self.values: dict[str, torch.Tensor] = {}
        self.inputs: list[torch.Tensor] = []
        # The metadata of inputs; a symbol is the same size in all of them.
        self.input_info: dict[str, InputInfo] = {}
        for _ in range(self.draw.randint(1, 3)):
            self._input()

    def graph(self) -> Any:
        """A graph of random nodes, whose outputs may be inputs, constants, and repeated results."""
        for _ in range(self.draw.randint(4, 18)):
            self.draw.choice(MAKERS)(self)
        self._wait()
        names = list(self.values)
        outputs = [*self.draw.choices(names, k=self.draw.randint(1, 3)), *names[-3:]]
        return self.builder.output(*outputs)

    def _wait(self) -> None:
        """Control edges from some nodes to later ones."""
        names = [op.name for op in self.builder.graph.op if op.type not in ("Data", "Const")]
        for _ in range(self.draw.choice((0, 0, 1, 2)) if len(names) > 1 else 0):
            before, after = sorted(self.draw.sample(range(len(names)), 2))
            self.builder.control(f"{names[before]}:0", f"{names[after]}:0")

    def _input(self) -> None:
        shape = [self.draw.choice(SIZES) for _ in range(self.draw.randint(0, 3))]
        value = self.filled(shape, self.draw.choice((*FLOATS, torch.float32, torch.int64, torch.int32)))
        dims = [self.draw.choice((size, -1)) for size in shape]
        name = self.builder.data(*dims, dtype=ge_dtype_name(value.dtype))
        self.values[name] = value
        self.inputs.append(value)
        if self.draw.random() < 0.4:
            symbols = {size: symbol(f"s{size}") if size != 1 else symbol(f"{name} one") for size in shape}
            sizes = tuple(number(size) if dim >= 0 else symbols[size] for size, dim in zip(shape, dims, strict=True))
            positive = frozenset(f"s{size}" for size in shape if size > 1 and self.draw.random() < 0.8)
            self.input_info[name[:-2]] = InputInfo(sizes, None, positive)

    def filled(self, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        count = math.prod(shape)
        if dtype not in FLOATS:
            large = [value for value in LARGE if dtype is torch.int64 or abs(value) < 2**31]
            return torch.tensor(self.draw.choices(large, k=count), dtype=torch.int64).to(dtype).reshape(shape)
        choices = torch.randint(0, 2 * len(ODD), (count,), generator=self.numbers)
        ordinary = torch.randn(count, generator=self.numbers)
        return torch.where(choices < len(ODD), ODD[choices % len(ODD)], ordinary).to(dtype).reshape(shape)

    def some(self, holds: Callable[[torch.Tensor], bool] = lambda _: True) -> str | None:
        fitting = [name for name, value in self.values.items() if holds(value)]
        return self.draw.choice(fitting) if fitting else None

    def add(self, value: torch.Tensor, kind: str, fed: dict[str, str], **attributes: Any) -> str:
        name = self.builder.op(kind, fed, **attributes)
        self.values[name] = value
        return name

    def const(self, value: Any, dtype: torch.dtype = torch.int64) -> str:
        name = self.builder.const(value, dtype)
        self.values[name] = torch.as_tensor(value, dtype=dtype)
        return name


def constant(maker: Maker) -> None:
    shape = [maker.draw.choice((1, 2, 2, 3)) for _ in range(maker.draw.randint(0, 2))]
    maker.const(maker.filled(shape, dtype := maker.draw.choice((*INTEGERS, torch.float32, torch.float16))), dtype)


def unary(maker: Maker) -> None:
    kind = maker.draw.choice(("Neg", "Identity", "Abs", "Exp", "Sqrt", "Tanh", "Relu"))
    if (x := maker.some(lambda value: value.dtype in (*FLOATS, *INTEGERS))) is not None:
        value = maker.values[x]
        is_float = kind in ("Exp", "Sqrt", "Tanh") and value.dtype not in FLOATS
        maker.add(value.float() if is_float else value, kind, {"x": x})


def complex_amount(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dtype is torch.float32)) is not None:
        converted = maker.add(maker.values[x].to(torch.complex64), "Cast", {"x": x}, dst_type="complex64")
        maker.add(maker.values[x], "Abs", {"x": converted})


def compared(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dtype in (*FLOATS, *INTEGERS))) is None:
        return
    value = maker.values[x]
    other = maker.some(lambda candidate: candidate.dtype == value.dtype and candidate.shape == value.shape) or x
    less = maker.add(value.bool(), "Less", {"x1": x, "x2": other})
    flipped = maker.add(value.bool(), "LogicalNot", {"x": less})
    maker.add(value.bool(), "LogicalAnd", {"x1": less, "x2": maker.draw.choice((less, flipped))})
    maker.add(value, "SelectV2", {"condition": flipped, "then": x, "else": other})


def cast(maker: Maker) -> None:
    x = maker.some()
    for _ in range(maker.draw.randint(1, 3)):
        dtype = maker.draw.choice(DTYPES)
        if x is not None:
            x = maker.add(maker.values[x].to(dtype), "Cast", {"x": x}, dst_type=ge_dtype_name(dtype))


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
    target = _another_shape(maker, value)
    if maker.draw.random() < 0.5:
        stated = list(target)
        for axis in range(min(len(target), value.dim())):
            if target[axis] == value.size(axis) and value.numel() and maker.draw.random() < 0.4:
                stated[axis] = 0
        if maker.draw.random() < 0.5 and value.numel():
            stated[maker.draw.randrange(len(stated))] = -1
        shape = maker.builder.const(stated)
    else:
        shape = maker.builder.op(
            "Pack", {f"x{at}": sized(maker, size) for at, size in enumerate(target)}, N=len(target)
        )
    maker.add(value.reshape(target), "Reshape", {"x": x, "shape": shape})


def _another_shape(maker: Maker, value: torch.Tensor) -> list[int]:
    if not value.numel() or maker.draw.random() < 0.2:
        target = maker.draw.sample(list(value.shape), value.dim())
        target.insert(maker.draw.randint(0, len(target)), 1)
        return target
    left, target = value.numel(), list[int]()
    while left > 1 and len(target) < 3:
        target.append(maker.draw.choice([size for size in range(1, left + 1) if left % size == 0]))
        left //= target[-1]
    target.insert(maker.draw.randint(0, len(target)), left)
    return target


def sized(maker: Maker, size: int) -> str:
    """A size as a scalar: read from the shape of a tensor, or a constant."""
    x = maker.some(lambda value: size in value.shape)
    if x is None or maker.draw.random() < 0.3:
        return maker.builder.const(size)
    at = maker.builder.const(list(maker.values[x].shape).index(size))
    return maker.builder.op("Gather", {"x": maker.builder.op("Shape", {"x": x}, dtype="int64"), "indices": at})


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
            x = maker.add(value, "Transpose", {"x": x, "perm": maker.builder.const(order)})


def product(maker: Maker) -> None:
    """A matrix product with itself, with transposes as nodes, as attributes, or both."""
    x = maker.some(lambda value: value.dim() in (2, 3) and value.dtype in FLOATS[:3] and value.numel() <= 64)
    if x is None:
        return
    value = maker.values[x]
    kind, names = (
        ("MatMulV2", "transpose") if value.dim() == 2 and maker.draw.random() < 0.5 else ("BatchMatMul", "adj")
    )
    does = [maker.draw.random() < 0.5 for _ in range(2)]
    # x @ x.mT, with any form of transposes.
    fed = {"x1": x if not does[0] else _turned(maker, x), "x2": x if does[1] else _turned(maker, x)}
    maker.add(value @ value.mT, kind, fed, **{f"{names}_x1": does[0], f"{names}_x2": does[1]})


def _turned(maker: Maker, x: str) -> str:
    rank = maker.values[x].dim()
    order = [*range(rank - 2), rank - 1, rank - 2]
    return maker.builder.op("Transpose", {"x": x, "perm": maker.builder.const(order)})


def quantised(maker: Maker) -> None:
    """Quantise rows to int8 or int4, pack and unpack them, and multiply."""
    x = maker.some(lambda value: value.dim() == 2 and value.dtype is torch.float16 and value.size(1) == 8)
    if x is None:
        return
    value, dtype = maker.values[x], maker.draw.choice(("int8", "int4"))
    codes = maker.builder.op("DynamicQuant", {"x": x}, outputs=("y", "scale"), dst_type=dtype)
    scales = f"{codes[:-2]}:1"
    maker.values[scales] = value[:, 0].float()
    if dtype == "int4":
        packed = maker.builder.op("Bitcast", {"x": codes}, type="int32")
        maker.values[packed] = value[:, 0].to(torch.int32)
        for _ in range(maker.draw.randint(0, 2)):
            shape = maker.builder.const([-1, *[1] * maker.draw.randint(0, 1)])
            packed = maker.builder.op("Reshape", {"x": packed, "shape": shape})
        again = maker.builder.op("Bitcast", {"x": packed}, type="int4")
        codes = maker.builder.op("Reshape", {"x": again, "shape": maker.builder.const([-1, 8])})
    right = maker.builder.op("Transpose", {"x": codes, "perm": maker.builder.const([1, 0])})
    fed = {"x1": codes, "x2": right, "scale": scales}
    rows = value.size(0)
    maker.add(torch.zeros(rows, rows, dtype=torch.bfloat16), "QuantBatchMatmulV3", fed, dtype="bfloat16")


def reduced(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dtype in (torch.float32, *INTEGERS))) is None:
        return
    value, keep = maker.values[x], maker.draw.random() < 0.5
    axis = maker.draw.randrange(max(value.dim(), 1))
    fed = {"x": x, "axes": maker.builder.const([axis])}
    maker.add(value.sum(axis, keepdim=keep, dtype=value.dtype), "ReduceSum", fed, keep_dims=keep)


def joined(maker: Maker) -> None:
    x = maker.some(lambda value: value.dim() > 0 and value.numel() <= LARGEST // 2)
    if x is None:
        return
    value = maker.values[x]
    other = maker.some(lambda candidate: candidate.shape == value.shape and candidate.dtype == value.dtype) or x
    axis = maker.draw.randrange(value.dim())
    fed = {"x0": x, "x1": other, "concat_dim": maker.builder.const(axis)}
    maker.add(torch.cat([value, maker.values[other]], axis), "ConcatV2", fed, N=2)


def chosen(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dim() == 1 and len(value) > 0 and value.dtype in INTEGERS)) is None:
        return
    value = maker.values[x]
    indices = maker.draw.choice((maker.draw.randrange(len(value)), [maker.draw.randrange(len(value)) for _ in "ab"]))
    maker.add(value[torch.tensor(indices)], "Gather", {"x": x, "indices": maker.builder.const(indices)})


def cut(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dim() > 0)) is None:
        return
    value, axis = maker.values[x], maker.draw.randrange(maker.values[x].dim())
    begin, end, step = maker.draw.choice((0, 1, -2)), maker.draw.choice((1, 3, -1, 2**62)), maker.draw.choice((1, 2))
    kept = list(range(value.size(axis)))[begin:end:step]
    fed = {"x": x}
    for name, argument in {"begin": begin, "end": end, "axes": axis, "strides": step}.items():
        fed[name] = maker.builder.const([argument])
    maker.add(value.index_select(axis, torch.tensor(kept, dtype=torch.int64)), "StridedSliceV2", fed)


def shape_of(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dim() > 0)) is not None:
        dtype = maker.draw.choice(INTEGERS)
        maker.add(torch.tensor(maker.values[x].shape, dtype=dtype), "Shape", {"x": x}, dtype=ge_dtype_name(dtype))


def filled(maker: Maker) -> None:
    x, like = maker.some(lambda value: value.dim() == 0), maker.some(lambda value: value.dim() > 0)
    if x is not None and like is not None:
        dims = maker.builder.op("Shape", {"x": like}, dtype="int64")
        value = maker.values[x].expand(maker.values[like].shape)
        kind, fed = maker.draw.choice((("Fill", {"dims": dims, "value": x}), ("BroadcastTo", {"x": x, "shape": dims})))
        maker.add(value, kind, fed)


def bits(maker: Maker) -> None:
    if (x := maker.some(lambda value: value.dtype in (torch.float32, torch.int32))) is not None:
        dtype = torch.int32 if maker.values[x].dtype is torch.float32 else torch.float32
        maker.add(maker.values[x].clone().view(dtype), "Bitcast", {"x": x}, type=ge_dtype_name(dtype))


def written(maker: Maker) -> None:
    """A buffer, views of it, a copy, and a node that writes to one of them after the others are read."""
    x = maker.some(lambda value: value.dtype is torch.float32 and value.dim() > 0 and value.size(0) > 0)
    if x is None:
        return
    value = maker.values[x]
    names = [maker.builder.op("Neg", {"x": x})]
    for _ in range(maker.draw.randint(0, 2)):
        names.append(_again(maker, names[-1], value))
    kept = maker.add(value, "Abs", {"x": maker.draw.choice(names)})
    copied = maker.add(value, "Cast", {"x": maker.draw.choice(names)}, dst_type="float32")
    update = maker.builder.const(torch.full((1, *value.shape[1:]), 7.0), torch.float32)
    index = maker.builder.const([[maker.draw.randrange(value.size(0))]])
    fed = {"var": maker.draw.choice(names), "indices": index, "updates": update}
    result = maker.builder.op("ScatterNdUpdate", fed, outputs=("var",))
    if maker.draw.random() < 0.5:
        maker.builder.control(kept, result)
        maker.builder.control(copied, result)
    maker.values[result] = value


def _again(maker: Maker, name: str, value: torch.Tensor) -> str:
    if maker.draw.random() < 0.5:
        return maker.builder.op("Identity", {"x": name})
    return maker.builder.op("Reshape", {"x": name, "shape": maker.builder.const(list(value.shape))})


MAKERS = [
    constant, unary, cast, cast, arithmetic, arithmetic, reshape, reshape, reshape, units, units, transpose, product,
    product, reduced, joined, chosen, shape_of, shape_of, filled, bits, written, compared, complex_amount, quantised,
    cut,
]  # fmt: skip
