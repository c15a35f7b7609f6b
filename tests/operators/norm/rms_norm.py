"""Calls of npu_rms_norm and npu_gemma_rms_norm."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64, i8

NAMES = ("rms_norm", "gemma_rms_norm")
GOOD = [
    *(
        good(op, label, *args)
        for op in NAMES
        for label, args in (
            ("float16", (f16(6, 16), f16(16))),
            ("bfloat16", (bf16(2, 3, 16), bf16(16), 1e-5)),
            ("float32", (f32(2, 3, 16), f32(16))),
            ("two dimensions normalised", (f16(2, 3, 16), f16(3, 16))),
            ("all dimensions normalised", (f32(3, 16), f32(3, 16))),
            ("one row", (bf16(1, 16), bf16(16))),
            ("one element", (f16(1, 1), f16(1))),
            ("transposed", (f16(16, 6).t(), f16(16))),
            ("no rows", (f16(0, 16), f16(16))),
            ("no epsilon", (f16(6, 16), f16(16), 0.0)),
        )
    ),
    good("rms_norm", "float32 gamma of float16", f16(6, 16), f32(16)),
    good("rms_norm", "float32 gamma of bfloat16", bf16(6, 16), f32(16)),
]
WRONG = [
    *(
        bad(op, argument, label, *args)
        for op in NAMES
        for argument, label, args in (
            ("input", "int8", (i8(6, 16), f16(16))),
            ("input", "float64", (f64(6, 16), f64(16))),
            ("input", "nine dimensions", (f16(1, 1, 1, 1, 1, 1, 1, 2, 16), f16(16))),
            ("gamma", "another half", (f16(6, 16), bf16(16))),
            ("gamma", "gamma of no dimension", (f16(6, 16), f16())),
            ("gamma", "gamma of more dimensions", (f16(16), f16(1, 16))),
            ("gamma.size(-1)", "gamma too short", (f16(6, 16), f16(8))),
            ("gamma.size(-2)", "gamma too low", (f16(2, 6, 16), f16(3, 16))),
            ("epsilon", "negative epsilon", (f16(6, 16), f16(16), -1e-6)),
        )
    ),
    bad("gemma_rms_norm", "gamma", "float32 gamma of float16", f16(6, 16), f32(16)),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    x = tensor(draw, shape, *FLOATS)
    gamma = tensor(draw, shape[-draw(st.integers(1, len(shape))) :], x.dtype, x.dtype, torch.float32)
    return (x, gamma), {}


def statement(gemma: bool) -> Any:
    """In float64, rounded once at the end."""

    def expected(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> tuple[torch.Tensor, np.ndarray]:  # type: ignore[type-arg]
        wide, axes = floats(x).astype(np.float64), tuple(range(-gamma.dim(), 0))
        rstd = 1 / np.sqrt(np.mean(wide**2, axis=axes, keepdims=True) + epsilon)
        y = wide * rstd * (floats(gamma).astype(np.float64) + gemma)
        return torch.from_numpy(y).to(x.dtype), rstd.astype(np.float32)

    return expected


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width = draw(st.integers(1, 4)), draw(st.sampled_from([1, 7, 16, 128]))
    make = draw(st.sampled_from([f16, bf16, f32]))
    epsilon = draw(st.sampled_from([1e-6, 1e-5, 0.1]))
    scale = draw(st.sampled_from([1.0, 1e-3, 30.0]))
    return (make(rows, width) * scale, make(width), epsilon), {}


# A float32 sum of 128 squares is off by 64 units of 2**-24 at most. Two values that close can be on
# both sides of a rounding boundary of bfloat16 and differ by one unit: 2**-7 of a value just above a power of two.
STATEMENTS = {
    "npu_rms_norm": Statement(statement(False), with_data(), bound=2**-7),
    "npu_gemma_rms_norm": Statement(statement(True), with_data(), bound=2**-7),
}
CALLS = {"npu_rms_norm": calls(), "npu_gemma_rms_norm": calls()}


def golden() -> Case:
    return lambda x, gamma: torch_npu.npu_rms_norm(x, gamma, 1e-5), (f16(4, 16), f16(16))


GOLDEN = {"rms_norm-float16": golden()}
