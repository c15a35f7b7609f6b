"""Calls of npu_linear, of its gradient and of npu_bmmV2."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64, i8, small32

X, W, B = f16(3, 8), f16(5, 8), f16(5)
GOOD = [
    good("linear", "float16", X, W),
    good("linear", "with a bias", X, W, B),
    good("linear", "float32", f32(2, 16), f32(4, 16), f32(4)),
    good("linear", "no rows", f16(0, 8), W),
]
WRONG = [
    bad("linear", "input", "int8", i8(3, 8), i8(5, 8)),
    bad("linear", "input", "three dimensions", f16(1, 3, 8), W),
    bad("linear", "weight", "another dtype", X, W.float()),
    bad("linear", "weight", "three dimensions", X, f16(1, 5, 8)),
    bad("linear", "weight.size(1)", "another width", X, f16(5, 7)),
    bad("linear", "bias", "another dtype", X, W, B.float()),
    bad("linear", "bias", "two dimensions", X, W, f16(1, 5)),
    bad("linear", "bias.size(0)", "another length", X, W, f16(4)),
    bad("linear_backward", "grad", "float64", f64(3, 5), X, W),
    bad("linear_backward", "input.size(0)", "fewer rows", f16(3, 5), f16(2, 8), W),
    bad("linear_backward", "weight.size(0)", "another width", f16(3, 4), X, W),
    bad("bmmV2", "input", "bfloat16", bf16(2, 3, 4), bf16(2, 4, 5), []),
    bad("bmmV2", "mat2", "another dtype", f16(2, 3, 4), f32(2, 4, 5), []),
    bad("bmmV2", "mat2", "one dimension", f16(2, 3, 4), f16(4), []),
    bad("bmmV2", "mat2.size(-2)", "another length", f16(2, 3, 4), f16(2, 5, 4), []),
    bad("bmmV2", "input.size(-3)", "other batches", f16(2, 3, 4), f16(3, 4, 5), []),
    bad("bmmV2", "output_sizes", "as gradients pass it", f16(2, 3, 4), f16(2, 4, 5), [3, 5]),
]


def eighths(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Multiples of 1/8, whose products are exact in float32 and summed in any order."""
    return (torch.randint(-8, 9, shape) / 8).to(dtype)


def wide(x: torch.Tensor) -> Any:
    return floats(x).astype(np.float64)


def to(values: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).to(like.dtype)


def expected_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return to(wide(x) @ wide(weight).T + (0 if bias is None else wide(bias)), x)


def expected_gradients(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    return [to(wide(grad) @ wide(weight), x), to(wide(grad).T @ wide(x), x)]


def expected_batches(x: torch.Tensor, other: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    assert not sizes
    return to(np.matmul(x.numpy().astype(np.float64), other.numpy().astype(np.float64)), x)


@st.composite
def linears(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    dtype = draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
    rows, width, columns = draw(st.integers(0, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 5))
    bias = eighths(dtype, columns) if draw(st.booleans()) else None
    return (eighths(dtype, rows, width), eighths(dtype, columns, width), bias), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, weight, _), _ = draw(linears())
    return (eighths(x.dtype, x.shape[0], weight.shape[0]), x, weight), {}


@st.composite
def batches(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    left, right = draw(st.sampled_from([((), ()), ((2,), (2,)), ((1,), (3,)), ((2, 1), (3,)), ((), (2,))]))
    make = draw(st.sampled_from([f16, f32, small32]))
    if make is small32:
        return (small32(*left, 2, 3), small32(*right, 3, 4), []), {}
    dtype = make(0).dtype
    return (eighths(dtype, *left, 2, 3), eighths(dtype, *right, 3, 4), []), {}


CALLS = {"npu_bmmV2": batches()}
STATEMENTS = {
    "npu_linear": Statement(expected_linear, linears()),
    "npu_linear_backward": Statement(expected_gradients, gradients()),
    "npu_bmmV2": Statement(expected_batches, batches()),
}
