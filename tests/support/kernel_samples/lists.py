"""Foreach arithmetic on lists, against ATen on single tensors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from support.kernel_samples.base import FLOATS, Case, kernel_sample, once, shape, size, tensor

special = torch.special
UNARY: dict[str, Callable[..., Any]] = {
    "Abs": torch.absolute, "Acos": torch.arccos, "Asin": torch.arcsin, "Atan": torch.arctan, "Cos": torch.cos,
    "Cosh": torch.cosh, "Erf": special.erf, "Erfc": special.erfc, "Exp": torch.exp, "Expm1": special.expm1,
    "Log": torch.log, "Log10": torch.log10, "Log1p": special.log1p, "Log2": torch.log2, "Neg": torch.negative,
    "Reciprocal": torch.reciprocal, "Sigmoid": special.expit, "Sign": torch.sign, "Sin": torch.sin,
    "Sinh": torch.sinh, "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "Add": torch.add, "Sub": torch.subtract, "Mul": torch.multiply, "Div": torch.true_divide, "Maximum": torch.max,
    "Minimum": torch.min, "Pow": torch.pow,
}  # fmt: skip


def _list(chance: random.Random, count: int = 1) -> list[list[torch.Tensor]]:
    dtype = chance.choice(FLOATS[:3])
    shapes = [shape(chance) for _ in range(chance.randint(1, 3))]
    return [[tensor(chance, dims, dtype) for dims in shapes] for _ in range(count)]


def _number(chance: random.Random) -> float:
    """A number that half precision represents exactly."""
    return chance.choice((0.5, 2.0, -3.0, 1.0))


def _unary(name: str, call: Callable[..., Any]) -> None:
    @kernel_sample(f"Foreach{name}")
    def make(chance: random.Random) -> Case:
        (xs,) = _list(chance)
        return Case([xs], {}, [call(x) for x in xs])


def _binary(name: str, call: Callable[..., Any]) -> None:
    def with_number(x: torch.Tensor, number: float) -> torch.Tensor:
        return call(x, torch.full_like(x, number))

    @kernel_sample(f"Foreach{name}Scalar")
    def scalar(chance: random.Random) -> Case:
        (xs,), number = _list(chance), _number(chance)
        scalar = torch.tensor(number, dtype=chance.choice((torch.float32, xs[0].dtype)))
        return Case([xs, scalar], {}, [with_number(x, number) for x in xs])

    @kernel_sample(f"Foreach{name}ScalarList")
    def scalars(chance: random.Random) -> Case:
        (xs,) = _list(chance)
        numbers = [_number(chance) for _ in xs]
        expected = [with_number(x, number) for x, number in zip(xs, numbers, strict=True)]
        return Case([xs, torch.tensor(numbers)], {}, expected)

    @kernel_sample(f"Foreach{name}List")
    def lists(chance: random.Random) -> Case:
        xs, ys = _list(chance, 2)
        if name not in ("Add", "Sub"):
            return Case([xs, ys], {}, [call(x, y) for x, y in zip(xs, ys, strict=True)])
        alpha = _number(chance)
        expected = [_scaled(call, x, y, alpha) for x, y in zip(xs, ys, strict=True)]
        return Case([xs, ys, size(alpha, xs[0].dtype)], {}, expected)


def _scaled(call: Any, x: torch.Tensor, y: torch.Tensor, alpha: float) -> torch.Tensor:
    """ATen's sum or difference; in half precision rounded once, as full vectors are."""
    if x.dtype not in (torch.float16, torch.bfloat16):
        return call(x, y, alpha=alpha)  # type: ignore[no-any-return]
    number = torch.tensor(alpha, dtype=x.dtype).double()
    return call(x.double(), y.double() * number).float().to(x.dtype)  # type: ignore[no-any-return]


for _name, _function in UNARY.items():
    _unary(_name, _function)
for _name, _function in BINARY.items():
    _binary(_name, _function)


@kernel_sample("ForeachPowScalarAndTensor")
def power_of_scalar(chance: random.Random) -> Case:
    (xs,), number = _list(chance), _number(chance)
    return Case([torch.tensor([number]), xs], {}, [torch.pow(torch.full_like(x, number), x) for x in xs])


def _three(name: str, call: Callable[..., Any]) -> None:
    @kernel_sample(f"Foreach{name}Scalar")
    def scalar(chance: random.Random) -> Case:
        lists, number = _list(chance, 3), _number(chance)
        expected = [once(call, *three, value=number) for three in zip(*lists, strict=True)]
        return Case([*lists, torch.tensor([number])], {}, expected)

    @kernel_sample(f"Foreach{name}ScalarList")
    def scalars(chance: random.Random) -> Case:
        lists = _list(chance, 3)
        numbers = [_number(chance) for _ in lists[0]]
        expected = [once(call, *three, value=n) for n, three in zip(numbers, zip(*lists, strict=True), strict=True)]
        return Case([*lists, torch.tensor(numbers)], {}, expected)


_three("Addcmul", torch.addcmul)
_three("Addcdiv", torch.addcdiv)


@kernel_sample("ForeachLerpScalar")
def lerp_scalar(chance: random.Random) -> Case:
    (xs, ys), number = _list(chance, 2), chance.choice((0.25, 0.75))
    expected = [torch.lerp(x, y, number) for x, y in zip(xs, ys, strict=True)]
    return Case([xs, ys, torch.tensor(number)], {}, expected)


@kernel_sample("ForeachLerpList")
def lerp_list(chance: random.Random) -> Case:
    xs, ys, weights = _list(chance, 3)
    return Case([xs, ys, weights], {}, list(torch._foreach_lerp(xs, ys, weights)))


@kernel_sample("ForeachNorm")
def norm(chance: random.Random) -> Case:
    (xs,) = _list(chance)
    xs = [x if x.numel() else torch.ones(2, dtype=x.dtype) for x in xs]
    order = chance.choice((1.0, 2.0, float("inf")))
    return Case([xs, size(order, torch.float32)], {}, list(torch._foreach_norm(xs, order)))


@kernel_sample("ForeachRoundOffNumber")
def round_off(chance: random.Random) -> Case:
    (xs,) = _list(chance)
    calls = {1: torch.round, 2: torch.floor, 3: torch.ceil, 5: torch.fix, 7: torch.frac}
    mode = chance.choice(list(calls))
    return Case([xs, size(mode)], {}, [calls[mode](x) for x in xs])
