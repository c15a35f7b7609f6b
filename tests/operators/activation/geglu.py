"""Calls of npu_geglu."""

import math
from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call import Statement, bad, good
from support.generated import FLOATS, SIZES, Draw, tensor
from support.rules import floats
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


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    return (tensor(draw, shape, *FLOATS), draw(st.integers(-3, 3)), draw(st.integers(0, 2)), draw(st.booleans())), {}


CALLS = {f"npu_{OP}": calls()}


def expected(x: torch.Tensor, dim: int, approximate: int, activate_left: bool) -> list[Any]:
    """In float64."""
    left, right = np.split(floats(x).astype(np.float64), 2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    if approximate:
        gelu = gate * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    else:
        gelu = gate * 0.5 * (1 + np.vectorize(math.erf)(gate / math.sqrt(2)))
    return [torch.from_numpy(each).to(x.dtype) for each in (other * gelu, gelu)]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = draw(st.sampled_from([f16, bf16, f32]))
    return (make(4, 8), draw(st.sampled_from([0, -1])), draw(st.integers(0, 1)), draw(st.booleans())), {}


# Where float32 and float64 differ, the one rounding, to bfloat16, may move by a unit: 2**-7 of the result at most.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), 2**-7)}
GOLDEN = {f"{OP}-float16": (torch_npu.npu_geglu, (f16(4, 16),))}
