"""Calls of npu_swiglu and of its gradient."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import exp, numbers, rounded
from support.call_strategies import Draw
from support.call_table import Case, Statement, bad, good
from support.tensors import bf16, f16, f32, f64

GOOD = [
    good("swiglu", "as public models", bf16(32, 64)),
    good("swiglu", "three dimensions", bf16(1, 16, 64)),
    good("swiglu", "one dimension", f32(6)),
    good("swiglu", "float16", f16(3, 10)),
    good("swiglu", "the first dimension", f32(4, 3), dim=0),
    good("swiglu", "a dimension between", f16(2, 6, 3), dim=-2),
    good("swiglu", "no rows", f16(0, 6)),
    good("swiglu", "no columns", f16(3, 0)),
    good("swiglu", "transposed", f16(6, 4).t()),
    good("swiglu_backward", "as public models", bf16(32, 32), bf16(32, 64)),
    good("swiglu_backward", "the first dimension", f32(2, 3), f32(4, 3), dim=0),
    good("swiglu_backward", "a dimension between", f16(2, 3, 3), f16(2, 6, 3), dim=-2),
    good("swiglu_backward", "no rows", f16(0, 3), f16(0, 6)),
    good("swiglu_backward", "no columns", f16(3, 0), f16(3, 0)),
    good("swiglu_backward", "transposed", f16(3, 4).t(), f16(6, 4).t()),
]
WRONG = [
    bad("swiglu", "input", "float64", f64(2, 4)),
    bad("swiglu", "input", "no dimension", f32()),
    bad("swiglu", "input", "nine dimensions", f32(1, 1, 1, 1, 1, 1, 1, 1, 2)),
    bad("swiglu", "dim", "dim too high", f32(2, 4), dim=2),
    bad("swiglu", "input.size(-1)", "odd", f32(2, 5)),
    bad("swiglu_backward", "input", "float64", f64(2, 2), f64(2, 4)),
    bad("swiglu_backward", "input", "no dimension", f32(), f32()),
    bad("swiglu_backward", "input.size(-1)", "odd", f32(2, 2), f32(2, 5)),
    bad("swiglu_backward", "dim", "dim too high", f32(2, 2), f32(2, 4), dim=2),
    bad("swiglu_backward", "grad_output", "gradient of another dtype", f16(2, 2), f32(2, 4)),
    bad("swiglu_backward", "grad_output", "gradient of one dimension", f32(2), f32(2, 4)),
    bad("swiglu_backward", "half of input.size(1)", "gradient as long as the input", f32(2, 4), f32(2, 4)),
    bad("swiglu_backward", "grad_output.size(0)", "gradient of other rows", f32(3, 2), f32(2, 4)),
]
GOLDEN: dict[str, Case] = {
    "swiglu": (lambda x: torch_npu.npu_swiglu(x), (bf16(6, 16),)),
    "swiglu_backward": (lambda g, x: torch.ops.npu.npu_swiglu_backward(g, x), (bf16(6, 8), bf16(6, 16))),
}


def expected(x: torch.Tensor, dim: int = -1) -> Any:
    a, b = np.split(numbers(x), 2, axis=dim)
    below = np.float32(1) + exp(-a)
    with np.errstate(all="ignore"):
        return rounded(np.float32(1) / below * a * b if x.dtype == torch.float32 else a / below * b, x.dtype)


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    shape = [data.one_of(0, 1, 2, 7, 16) for _ in range(data.one_of(1, 2, 3))]
    dim = data.one_of(*range(-len(shape), len(shape)))
    shape[dim] *= 2
    return (data.floats(data.one_of(torch.float32, torch.float16, torch.bfloat16), *shape),), {"dim": dim}


def expected_gradient(grad: torch.Tensor, x: torch.Tensor, dim: int = -1) -> Any:
    (a, b), g, one = np.split(numbers(x), 2, axis=dim), numbers(grad), np.float32(1)
    with np.errstate(all="ignore"):
        s = one / (one + exp(-a))
        slope = s * (one - s) * a + s
        first = slope * b * g if x.dtype == torch.float32 else slope * g * b
        return rounded(np.concatenate([first, s * a * g], axis=dim), x.dtype)


def expected_gradient_950(grad: torch.Tensor, x: torch.Tensor, dim: int = -1) -> Any:
    (a, b), g, one = np.split(numbers(x), 2, axis=dim), numbers(grad), np.float32(1)
    with np.errstate(all="ignore"):
        s = one / (one + exp(-a))
        first = (one + (one - s) * a) * (g * s) * b
        return rounded(np.concatenate([first, g * s * a], axis=dim), x.dtype)


@st.composite
def gradients(draw: Draw) -> Call:
    (x,), options = draw(calls())
    shape = list(x.shape)
    shape[options["dim"]] //= 2
    return (Data(draw).floats(x.dtype, *shape), x), options


STATEMENTS = {
    "npu_swiglu": Statement(expected, calls()),
    "npu_swiglu_backward": Statement(expected_gradient, gradients(), sample=15),
}
STATEMENTS_950 = {"npu_swiglu_backward": Statement(expected_gradient_950, gradients())}
