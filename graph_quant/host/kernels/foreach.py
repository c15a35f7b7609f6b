"""Elementwise arithmetic on every tensor of a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...ge import Sizes, kernel
from ...reference.half_precision import HALF_DTYPES, add_scaled
from .elementwise import addcdiv, addcmul

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Asin": torch.asin,
    "Atan": torch.atan,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Erfc": torch.erfc,
    "Exp": torch.exp,
    "Expm1": torch.expm1,
    "Log": torch.log,
    "Log10": torch.log10,
    "Log1p": torch.log1p,
    "Log2": torch.log2,
    "Neg": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Pow": torch.pow,
}


def _register_unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    def run(x: Sequence[Tensor]) -> list[Tensor]:
        return [function(tensor) for tensor in x]

    run.__name__ = run.__qualname__ = f"Foreach{name}"
    kernel(f"Foreach{name}")(run)


def _register_binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def with_scalar(x: Sequence[Tensor], scalar: Tensor) -> list[Tensor]:
        return [function(tensor, scalar.reshape(()).to(tensor.dtype)) for tensor in x]

    def with_scalars(x: Sequence[Tensor], scalars: Tensor) -> list[Tensor]:
        return [function(tensor, scalars[index].to(tensor.dtype)) for index, tensor in enumerate(x)]

    def with_list(x1: Sequence[Tensor], x2: Sequence[Tensor]) -> list[Tensor]:
        return [function(one, other) for one, other in zip(x1, x2, strict=True)]

    for suffix, run in (("Scalar", with_scalar), ("ScalarList", with_scalars), ("List", with_list)):
        run.__name__ = run.__qualname__ = f"Foreach{name}{suffix}"
        if f"{name}{suffix}" not in ("AddList", "SubList"):
            kernel(f"Foreach{name}{suffix}")(run)


for _name, _function in _UNARY.items():
    _register_unary(_name, _function)
for _name, _function in _BINARY.items():  # type: ignore[assignment]
    _register_binary(_name, _function)  # type: ignore[arg-type]


@kernel("ForeachAddList")
def add_list(x1: Sequence[Tensor], x2: Sequence[Tensor], alpha: Sizes) -> list[Tensor]:
    return [_add_scaled(one, other, alpha.scalar) for one, other in zip(x1, x2, strict=True)]


@kernel("ForeachSubList")
def sub_list(x1: Sequence[Tensor], x2: Sequence[Tensor], alpha: Sizes) -> list[Tensor]:
    return [_add_scaled(one, other, -alpha.scalar) for one, other in zip(x1, x2, strict=True)]


def _add_scaled(x1: Tensor, x2: Tensor, alpha: float) -> Tensor:
    if abs(alpha) == 1 or x1.dtype not in HALF_DTYPES:
        return torch.add(x1, x2, alpha=alpha)
    return add_scaled(x1, x2, torch.tensor(alpha, dtype=x1.dtype))


@kernel("ForeachPowScalarAndTensor")
def power_of_scalar(scalar: Tensor, x: Sequence[Tensor]) -> list[Tensor]:
    return [torch.pow(scalar.reshape(()).to(tensor.dtype), tensor) for tensor in x]


@kernel("ForeachAddcdivScalar")
def add_quotients(x1: Sequence[Tensor], x2: Sequence[Tensor], x3: Sequence[Tensor], scalar: Tensor) -> list[Tensor]:
    return [addcdiv(a, b, c, scalar.reshape(())) for a, b, c in zip(x1, x2, x3, strict=True)]


@kernel("ForeachAddcdivScalarList")
def add_scaled_quotients(
    x1: Sequence[Tensor], x2: Sequence[Tensor], x3: Sequence[Tensor], scalars: Tensor
) -> list[Tensor]:
    return [addcdiv(a, b, c, scalars[index]) for index, (a, b, c) in enumerate(zip(x1, x2, x3, strict=True))]


@kernel("ForeachAddcmulScalar")
def add_products(x1: Sequence[Tensor], x2: Sequence[Tensor], x3: Sequence[Tensor], scalar: Tensor) -> list[Tensor]:
    return [addcmul(a, b, c, scalar.reshape(())) for a, b, c in zip(x1, x2, x3, strict=True)]


@kernel("ForeachAddcmulScalarList")
def add_scaled_products(
    x1: Sequence[Tensor], x2: Sequence[Tensor], x3: Sequence[Tensor], scalars: Tensor
) -> list[Tensor]:
    return [addcmul(a, b, c, scalars[index]) for index, (a, b, c) in enumerate(zip(x1, x2, x3, strict=True))]


@kernel("ForeachLerpScalar")
def lerp_scalar(x1: Sequence[Tensor], x2: Sequence[Tensor], weight: Tensor) -> list[Tensor]:
    return [torch.lerp(one, other, weight.reshape(()).to(one.dtype)) for one, other in zip(x1, x2, strict=True)]


@kernel("ForeachLerpList")
def lerp_list(x1: Sequence[Tensor], x2: Sequence[Tensor], weight: Sequence[Tensor]) -> list[Tensor]:
    return [torch.lerp(one, other, by) for one, other, by in zip(x1, x2, weight, strict=True)]


@kernel("ForeachNorm")
def norm(x: Sequence[Tensor], scalar: Sizes) -> list[Tensor]:
    order = float(scalar.scalar)
    return [torch.linalg.vector_norm(tensor, math.inf if math.isinf(order) else order) for tensor in x]


# TorchAir's numbers of the rounding modes.
_ROUNDINGS: dict[int, Callable[[Tensor], Tensor]] = {
    1: torch.round,
    2: torch.floor,
    3: torch.ceil,
    4: torch.round,
    5: torch.trunc,
    7: torch.frac,
}


@kernel("ForeachRoundOffNumber")
def round_off(x: Sequence[Tensor], roundMode: Sizes) -> list[Tensor]:  # noqa: N803
    return [_ROUNDINGS[roundMode.ints[0]](tensor) for tensor in x]
