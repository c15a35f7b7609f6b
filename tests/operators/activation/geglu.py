"""Calls of npu_geglu."""

import math
from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8

OP = "geglu"
GOOD = [
    good(OP, "float16", f16(6, 16)),
    good(OP, "bfloat16, the first half", bf16(2, 3, 16), activate_left=True),
    good(OP, "float32, error function", f32(6, 16), -1, 0),
    good(OP, "another dimension", f16(4, 3), 0, 0, True),
    good(OP, "nothing", f16(0, 4)),
]
WRONG = [
    bad(OP, "input", "int8", i8(6, 16)),
    bad(OP, "input", "no dimension", f16()),
    bad(OP, "input.size(-1)", "odd", f16(6, 15)),
    bad(OP, "dim", "too far", f16(6, 16), 2),
    bad(OP, "approximate", "another", f16(6, 16), -1, 2),
]

WRONG_950 = [bad(OP, "approximate", "error function", f32(6, 16), -1, 0)]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    return (tensor(draw, shape, *FLOATS), draw(st.integers(-3, 3)), draw(st.integers(0, 2)), draw(st.booleans())), {}


CALLS = {f"npu_{OP}": calls()}


ERF = (-0.3512339572e-8, 0.2645266170e-6, -0.7929488134e-5, 0.1106123840e-3, 0.6518995814e-4, -0.7266616915e-1)


def exp(values: Any) -> Any:
    """The exponential, correctly rounded to float32."""
    with np.errstate(over="ignore"):
        return np.exp(values.astype(np.float64)).astype(np.float32)


def by_polynomial(gate: Any) -> Any:
    """GELU with the kernel's polynomial for erf."""
    limited = np.minimum(gate, np.float32(5.75))
    squared, power = limited * limited, np.float32(0)
    for coefficient in ERF:
        power = (power + np.float32(coefficient)) * squared
    return gate / (exp((power + np.float32(-0.1595769883e1)) * limited) + np.float32(1))


def expected(x: torch.Tensor, dim: int, approximate: int, activate_left: bool) -> list[Any]:
    """Step by step in float32; the GELU of float16 is rounded before the product."""
    left, right = np.split(floats(x), 2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    if approximate:
        argument = (gate * gate * gate * np.float32(0.044715) + gate) * np.float32(1.5957691)
        gelu = gate / (exp(-argument) + np.float32(1))
    else:
        gelu = by_polynomial(gate)
        truth = gate * 0.5 * (1 + np.vectorize(math.erf)(gate / math.sqrt(2)))
        np.testing.assert_allclose(gelu, truth, rtol=0, atol=1e-5)
    rounded = torch.from_numpy(gelu).to(x.dtype)
    product = other * (floats(rounded) if x.dtype == torch.float16 else gelu)
    return [torch.from_numpy(product).to(x.dtype), rounded]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = draw(st.sampled_from([f16, bf16, f32]))
    return (
        make(4, 8) * draw(st.sampled_from([1, 4])),
        draw(st.sampled_from([0, -1])),
        draw(st.integers(0, 1)),
        draw(st.booleans()),
    ), {}


STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}
STATEMENTS_950 = {f"npu_{OP}": Statement(expected, with_data().filter(lambda call: call[0][2] == 1))}
GOLDEN = {f"{OP}-float16": (torch_npu.npu_geglu, (f16(4, 16),))}
