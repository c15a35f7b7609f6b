"""Kernels against the ATen operators they stand for: ranks 0 to 4, dtypes, zero sizes, broadcasting, any axes.

A sample runs with the other tests; ``GRAPH_QUANT_KERNEL_CASES=400 pytest tests/kernels/test_families.py`` tries more.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_quant.ge.sizes import list_of_sizes
from graph_quant.host.kernels import KERNELS

CASES = int(os.environ.get("GRAPH_QUANT_KERNEL_CASES", "25"))
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
special = torch.special

FLOAT_UNARY: dict[str, Callable[..., Any]] = {
    "Acos": torch.arccos, "Acosh": torch.arccosh, "Asin": torch.arcsin, "Asinh": torch.arcsinh, "Atan": torch.arctan,
    "Atanh": torch.arctanh, "Cos": torch.cos, "Cosh": torch.cosh, "Digamma": special.digamma, "Erf": special.erf,
    "Erfc": special.erfc, "Exp": torch.exp, "Expm1": special.expm1, "Lgamma": special.gammaln, "Log": torch.log,
    "Log1p": special.log1p, "Reciprocal": torch.reciprocal, "Rint": torch.round, "Rsqrt": torch.rsqrt, "Sin": torch.sin,
    "Sinh": torch.sinh, "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh, "Trunc": torch.fix,
    "Erfinv": special.erfinv, "Sigmoid": special.expit, "Gelu": torch.nn.functional.gelu,
    "HardSwish": torch.nn.functional.hardswish, "IsFinite": torch.isfinite, "IsInf": torch.isinf, "IsNan": torch.isnan,
    "Swish": torch.nn.functional.silu, "SoftplusV2": torch.nn.functional.softplus, "NanToNum": torch.nan_to_num,
}  # fmt: skip
ANY_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": torch.absolute, "Ceil": torch.ceil, "Floor": torch.floor, "Neg": torch.negative, "Round": torch.round,
    "Sign": torch.sign, "Square": torch.square, "Relu": torch.relu, "ZerosLike": torch.zeros_like,
    "OnesLike": torch.ones_like, "Identity": torch.clone, "TensorMove": torch.clone, "LogicalNot": torch.logical_not,
}  # fmt: skip
ANY_BINARY: dict[str, Callable[..., Any]] = {
    "Add": torch.add, "AddV2": torch.add, "Sub": torch.subtract, "Mul": torch.multiply, "Maximum": torch.max,
    "Minimum": torch.min, "Equal": torch.eq, "NotEqual": torch.not_equal, "Less": torch.less, "IsClose": torch.isclose,
    "LessEqual": torch.less_equal, "Greater": torch.greater, "GreaterEqual": torch.greater_equal,
    "LogicalAnd": torch.logical_and, "LogicalOr": torch.logical_or, "LogicalXor": torch.logical_xor,
}  # fmt: skip
FLOAT_BINARY: dict[str, Callable[..., Any]] = {
    "Atan2": torch.arctan2, "Div": torch.true_divide, "RealDiv": torch.true_divide, "FloorDiv": torch.floor_divide,
    "FloorMod": torch.remainder, "Mod": torch.fmod, "Pow": torch.pow,
    "TruncateDiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}  # fmt: skip
INTEGER_BINARY: dict[str, Callable[..., Any]] = {
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
}  # fmt: skip
REDUCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.dtype, ...]]] = {
    "ReduceSum": (lambda x, d, k: torch.sum(x, d, k, dtype=x.dtype), (*FLOATS, *INTEGERS)),
    "ReduceMean": (torch.mean, FLOATS),
    "ReduceMax": (torch.amax, (*FLOATS, *INTEGERS)),
    "ReduceMin": (torch.amin, (*FLOATS, *INTEGERS)),
    "ReduceLogSumExp": (torch.logsumexp, FLOATS),
}
AXES: dict[str, tuple[Callable[..., Any], str]] = {
    "SoftmaxV2": (torch.softmax, "axes"),
    "LogSoftmaxV2": (torch.log_softmax, "axes"),
    "GLU": (torch.nn.functional.glu, "dim"),
}


def shape(chance: random.Random, zeros: bool = True) -> list[int]:
    return [chance.choice((1, 2, 3, 4, 0) if zeros else (2, 4)) for _ in range(chance.randint(0, 4))]


def tensor(chance: random.Random, sizes: list[int], dtype: torch.dtype) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, sizes).to(dtype)
    made = (torch.randn(sizes) * chance.choice((0.3, 3.0, 1e3))).to(dtype)
    if made.numel() and chance.random() < 0.3:
        made.view(-1)[0] = chance.choice((float("inf"), float("-inf"), float("nan"), -0.0))
    return made


def check(op_type: str, expected: torch.Tensor, *arguments: Any, **attributes: Any) -> None:
    result = KERNELS[op_type].function(*arguments, **attributes)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape), (op_type, arguments)
    assert torch.equal(result.isnan(), expected.isnan()), (op_type, arguments)
    assert torch.equal(result.nan_to_num(), expected.nan_to_num()), (op_type, arguments)


UNARY = {name: (call, FLOATS) for name, call in FLOAT_UNARY.items()}
UNARY |= {name: (call, (*FLOATS, *INTEGERS)) for name, call in ANY_UNARY.items()}
BINARY = {name: (call, (*FLOATS, *INTEGERS)) for name, call in ANY_BINARY.items()}
BINARY |= {name: (call, FLOATS) for name, call in FLOAT_BINARY.items()}
BINARY |= {name: (call, INTEGERS) for name, call in INTEGER_BINARY.items()}


@pytest.mark.parametrize("op_type", UNARY)
def test_one_input(op_type: str) -> None:
    call, kinds = UNARY[op_type]
    chance = random.Random(op_type)
    for _ in range(CASES):
        x = tensor(chance, shape(chance), chance.choice(kinds))
        check(op_type, call(x), x)


@pytest.mark.parametrize("op_type", BINARY)
def test_two_inputs_broadcast(op_type: str) -> None:
    call, kinds = BINARY[op_type]
    chance = random.Random(op_type)
    for _ in range(CASES):
        whole, dtype = shape(chance), chance.choice(kinds)
        kept = [whole[chance.randint(0, len(whole)) :] for _ in range(2)]
        x1, x2 = (tensor(chance, [chance.choice((size, size, 1)) for size in part], dtype) for part in kept)
        check(op_type, call(x1, x2), x1, x2)


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(op_type: str, keep: bool) -> None:
    call, kinds = REDUCTIONS[op_type]
    chance = random.Random(op_type)
    for _ in range(CASES):
        x = tensor(chance, shape(chance, zeros=op_type == "ReduceSum"), chance.choice(kinds))
        axes = [axis - chance.choice((0, x.dim())) for axis in range(x.dim()) if chance.random() < 0.6]
        # GE takes no axes for all of them.
        expected = call(x, axes or list(range(x.dim())), keep)
        check(op_type, expected, x, list_of_sizes(axes), keep_dims=keep)


@pytest.mark.parametrize("op_type", AXES)
def test_along_an_axis(op_type: str) -> None:
    call, name = AXES[op_type]
    chance = random.Random(op_type)
    for _ in range(CASES):
        x = tensor(chance, [*shape(chance, zeros=False)[:3], 4], chance.choice(FLOATS))
        axis = chance.randint(-x.dim(), x.dim() - 1)
        check(op_type, call(x, axis), x, **{name: axis if name == "dim" else [axis]})
