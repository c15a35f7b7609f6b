"""Calls of npu_rms_norm_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import DESTINATIONS, HALVES, SIZES, Draw, tensor
from support.call_table import INT4, Case, Statement, bad, good
from support.numpy_rules import floats, stored
from support.tensors import bf16, f16, f32, i8

OP = "rms_norm_quant"


def call(make: Any = f16, *shape: int) -> tuple[torch.Tensor, ...]:
    """Arguments of an allowed call for a shape of x."""
    width = shape[-1]
    return make(*shape), make(width), make(width), make(1), i8(1)


A = call(f16, 6, 16)
GOOD = [
    good(OP, "float16", *A),
    good(OP, "bfloat16", *call(bf16, 2, 3, 16), 1e-5),
    good(OP, "int4", *A, dst_dtype=INT4),
    good(OP, "rows of two dimensions", A[0], f16(1, 16), f16(1, 16), *A[3:]),
    good(OP, "one dimension", *call(f16, 16)),
]
WRONG = [
    bad(OP, "x", "float32", *call(f32, 6, 16)),
    bad(OP, "x", "nine dimensions", f16(1, 1, 1, 1, 1, 1, 1, 2, 16), *A[1:]),
    bad(OP, "x.size(0)", "no rows", f16(0, 16), *A[1:]),
    bad(OP, "gamma", "gamma of another dtype", A[0], bf16(16), *A[2:]),
    bad(OP, "gamma", "gamma of three dimensions", A[0], f16(1, 1, 16), *A[2:]),
    bad(OP, "gamma.size(-1)", "gamma too short", A[0], f16(8), *A[2:]),
    bad(OP, "gamma.size(0)", "two gammas", A[0], f16(2, 16), *A[2:]),
    bad(OP, "beta", "beta of another dtype", *A[:2], f32(16), *A[3:]),
    bad(OP, "beta", "beta of another rank", *A[:2], f16(1, 16), *A[3:]),
    bad(OP, "beta.size(-1)", "beta too long", *A[:2], f16(32), *A[3:]),
    bad(OP, "scale", "scale of float32", *A[:3], f32(1), A[4]),
    bad(OP, "scale", "scale of no dimension", *A[:3], f16(), A[4]),
    bad(OP, "scale.size(0)", "a scale for each column", *A[:3], f16(16), A[4]),
    bad(OP, "epsilon", "no epsilon", *A, 0.0),
    bad(OP, "offset", "offset of float16", *A[:4], f16(1)),
    bad(OP, "offset.size(0)", "an offset for each column", *A[:4], i8(16)),
    bad(OP, "dst_dtype", "uint8", *A, dst_dtype=torch.uint8),
    bad(OP, "x.size(-1)", "width not of eights", *call(f16, 6, 12), dst_dtype=INT4),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    x = tensor(draw, shape, *HALVES)
    rows = draw(st.sampled_from([shape[-1:], (1, *shape[-1:])]))
    ones = tensor(draw, (1,), x.dtype), tensor(draw, (1,), torch.int8)
    return (x, tensor(draw, rows, x.dtype), tensor(draw, rows, x.dtype), *ones), {"dst_dtype": draw(DESTINATIONS)}


CALLS = {f"npu_{OP}": calls()}


def expected(*args: Any, dst_dtype: Any) -> Any:
    """Step by step in float32, with torch's order of addition, then rounded to float16 and to the integer."""
    x, gamma, beta, scale, offset = (floats(tensor) for tensor in args[:5])
    squares = torch.from_numpy(x * x).sum(-1, keepdim=True).numpy()
    rstd = np.float32(1) / np.sqrt(squares * np.float32(1 / x.shape[-1]) + np.float32(args[5]))
    with np.errstate(over="ignore"):
        halves = ((x * rstd * gamma + beta) * (np.float32(1) / scale) + offset).astype(np.float16)
    return stored(halves.astype(np.float32), "int4" if dst_dtype is INT4 else "int8")


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = draw(st.sampled_from([f16, bf16]))
    shape = (draw(st.integers(1, 4)), draw(st.sampled_from([8, 16, 128])))
    scale = torch.tensor([draw(st.sampled_from([0.5, 0.0123, 0.001, 2**-14]))], dtype=make(1).dtype)
    args = (*call(make, *shape)[:3], scale, i8(1), draw(st.sampled_from([1e-6, 0.1])))
    return args, {"dst_dtype": draw(st.sampled_from([None, INT4]))}


STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}


def golden(kind: torch.dtype) -> Case:
    return lambda *inputs: torch_npu.npu_rms_norm_quant(*inputs, dst_dtype=kind), A


GOLDEN = {f"{OP}-int8": golden(torch.int8), f"{OP}-int4": golden(INT4)}
