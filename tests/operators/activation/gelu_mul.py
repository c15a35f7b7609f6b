"""Calls of npu_gelu_mul."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import exp, numbers, rounded
from support.call_strategies import FLOATS, Draw
from support.call_table import Statement, bad, good
from support.tensors import bf16, f16, f32, i8

NAME = "gelu_mul"
GOOD = [
    good(NAME, "float16", f16(3, 10)),
    good(NAME, "tanh", bf16(2, 3, 8), approximate="tanh"),
    good(NAME, "float32", f32(2, 3, 1024)),
    good(NAME, "no rows", f16(0, 6)),
    good(NAME, "transposed", f16(6, 4).t(), approximate="tanh"),
]
WRONG = [
    bad(NAME, "approximate", "unknown", f16(3, 10), approximate="erf"),
    bad(NAME, "input", "int8", i8(3, 10)),
    bad(NAME, "input", "one dimension", f16(10)),
    bad(NAME, "input.size(-1)", "no columns", f16(3, 0)),
    bad(NAME, "input.size(-1)", "odd", f16(3, 5)),
    bad(NAME, "input.size(-1)", "too wide", f16(3, 1026)),
    bad(NAME, "rows", "too many rows", torch.empty(200001, 2, dtype=torch.float16)),
]
# Coefficients of the kernel's polynomial for the normal CDF, highest power first.
TERMS = (-0.3512339572e-8, 0.2645266170e-6, -0.7929488134e-5, 0.1106123840e-3, 0.6518995814e-4, -0.7266616915e-1)


def expected(x: torch.Tensor, approximate: str) -> Any:
    (a, b), one = np.split(numbers(x), 2, axis=-1), np.float32(1)
    with np.errstate(all="ignore"):
        if approximate == "tanh":
            argument = (a + a * a * a * np.float32(0.044715)) * np.float32(-1.5957691)
        else:
            a = np.maximum(a, np.float32(-13.15))
            low = np.minimum(a, np.float32(5.751))
            total = np.zeros_like(low)
            for term in TERMS:
                total = (total + np.float32(term)) * (low * low)
            argument = (total + np.float32(-0.1595769883e1)) * low
        return rounded(a / (exp(argument) + one) * b, x.dtype)


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    x = data.floats(data.one_of(*FLOATS), data.one_of(0, 1, 3), 2 * data.one_of(1, 4, 7))
    return (x,), {"approximate": data.one_of("none", "tanh")}


STATEMENTS = {f"npu_{NAME}": Statement(expected, calls(), sample=25)}
GOLDEN = {f"{NAME}-tanh": (lambda x: torch_npu.npu_gelu_mul(x, approximate="tanh"), (f16(3, 10),))}
