"""Elementwise functions of one and of two tensors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from support.kernel_samples.base import ALL, FLOATS, INTEGERS, NUMBERS, Case, kernel_sample, pair, shape, tensor

special, functional = torch.special, torch.nn.functional

Table = dict[str, Callable[..., Any]]
FLOAT_UNARY: Table = {
    "Acos": torch.arccos, "Acosh": torch.arccosh, "Asin": torch.arcsin, "Asinh": torch.arcsinh, "Atan": torch.arctan,
    "Atanh": torch.arctanh, "Cos": torch.cos, "Cosh": torch.cosh, "Digamma": special.digamma, "Erf": special.erf,
    "Erfc": special.erfc, "Expm1": special.expm1, "Lgamma": special.gammaln, "Log1p": special.log1p,
    "Reciprocal": torch.reciprocal, "Rint": torch.round, "Rsqrt": torch.rsqrt, "Sin": torch.sin, "Sinh": torch.sinh,
    "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh, "Trunc": torch.fix, "Erfinv": special.erfinv,
    "Sigmoid": special.expit, "Gelu": functional.gelu, "HardSwish": functional.hardswish, "IsFinite": torch.isfinite,
    "IsInf": torch.isinf, "IsNan": torch.isnan,
}  # fmt: skip
ANY_UNARY: Table = {
    "Abs": torch.absolute, "Ceil": torch.ceil, "Floor": torch.floor, "Neg": torch.negative, "Round": torch.round,
    "Sign": torch.sign, "Square": torch.square, "Relu": torch.relu,
}  # fmt: skip
LOGICAL: Table = {"LogicalAnd": torch.logical_and, "LogicalOr": torch.logical_or, "LogicalXor": torch.logical_xor}
ANY_BINARY: Table = {
    "Add": torch.add, "AddV2": torch.add, "Mul": torch.multiply, "Maximum": torch.max, "Minimum": torch.min,
    "Equal": torch.eq, "NotEqual": torch.not_equal, "Less": torch.less, "LessEqual": torch.less_equal,
    "Greater": torch.greater, "GreaterEqual": torch.greater_equal, **LOGICAL,
}  # fmt: skip
BITS: Table = {"BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor}


def one(op_type: str, call: Callable[..., Any], kinds: tuple[torch.dtype, ...]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x = tensor(chance, shape(chance), chance.choice(kinds))
        return Case([x], {}, call(x))


def two(op_type: str, call: Callable[..., Any], kinds: tuple[torch.dtype, ...]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x1, x2 = pair(chance, chance.choice(kinds))
        return Case([x1, x2], {}, call(x1, x2))


for name, function in FLOAT_UNARY.items():
    one(name, function, FLOATS)
for name, function in ANY_UNARY.items():
    one(name, function, NUMBERS)
one("LogicalNot", torch.logical_not, ALL)
one("Invert", torch.bitwise_not, (*INTEGERS, torch.bool))
for name, function in ANY_BINARY.items():
    two(name, function, ALL)
two("Sub", torch.subtract, NUMBERS)
two("IsClose", torch.isclose, NUMBERS)
two("Atan2", torch.arctan2, FLOATS)
two("Pow", torch.pow, FLOATS)
two("SquaredDifference", lambda a, b: (a - b) * (a - b), NUMBERS)
for name, function in BITS.items():
    two(name, function, (*INTEGERS, torch.bool))
