"""Calls of npu_rotate_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats, pack
from support.tensors import bf16, f16, f32, nz

OP, INT4_NUMBER = "rotate_quant", 16
X, R = f16(3, 128), f16(32, 32)
GOOD = [
    good(OP, "int8", X, R),
    good(OP, "int8 spelled out", bf16(3, 128), bf16(64, 64), dst_dtype=1, axis=1, scale_alg=0, transpose_y=False),
    good(OP, "int4", X, R, dst_dtype=INT4_NUMBER),
    good(OP, "one block", bf16(1, 136), bf16(136, 136), dst_dtype=INT4_NUMBER, round_mode="floor"),
    good(OP, "zeros", torch.zeros(2, 128).half(), f16(16, 16)),
    good(OP, "views", f16(128, 3).t(), R.t(), round_mode="round"),
]
WRONG = [
    bad(OP, "x", "x float32", f32(3, 128), f32(32, 32)),
    bad(OP, "rotation", "rotation of another dtype", X, bf16(32, 32)),
    bad(OP, "x", "x of three dimensions", f16(1, 3, 128), R),
    bad(OP, "rotation", "rotation of three dimensions", X, f16(4, 32, 32)),
    bad(OP, "x.size(0)", "no row", f16(0, 128), R),
    bad(OP, "rotation.size(1)", "rotation not square", X, f16(32, 16)),
    bad(OP, "x.size(1)", "too narrow", f16(3, 64), R),
    bad(OP, "x.size(1)", "too wide", f16(1, 16032), R),
    bad(OP, "rotation.size(0)", "rotation too small", X, f16(8, 8)),
    bad(OP, "rotation.size(0)", "rotation too large", f16(1, 1032), f16(1032, 1032)),
    bad(OP, "x.size(1)", "not a multiple of eight", f16(1, 132), f16(33, 33)),
    bad(OP, "x.size(1)", "not a multiple of k", f16(3, 136), R),
    bad(OP, "alpha", "alpha", X, R, alpha=bf16(1)),
    bad(OP, "dst_dtype", "float4 of Ascend 950", X, R, dst_dtype=296),
    bad(OP, "axis", "axis 0", X, R, axis=0),
    bad(OP, "round_mode", "ceil", X, R, round_mode="ceil"),
    bad(OP, "scale_alg", "scale_alg of Ascend 950", X, R, scale_alg=1),
    bad(OP, "dst_type_max", "dst_type_max of Ascend 950", X, R, dst_type_max=6.0),
    bad(OP, "transpose_y", "transpose_y", X, R, transpose_y=True),
]
WRONG_FORMATS = [
    bad(OP, "x", "in FRACTAL_NZ", nz(X), R),
    bad(OP, "rotation", "rotation in FRACTAL_NZ", X, nz(R)),
]


def golden(dtype: int | None) -> Case:
    return lambda x, rotation: torch_npu.npu_rotate_quant(x, rotation, dst_dtype=dtype), (X, R)


GOLDEN = {"rotate_quant-int8": golden(None), "rotate_quant-int4": golden(INT4_NUMBER)}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    half = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    side = draw(st.sampled_from([8, 16, 32, 64]))
    width = draw(st.sampled_from([64, 128, 136, 192]))
    options = {"dst_dtype": draw(st.sampled_from([None, 1, INT4_NUMBER])), "axis": mostly(draw, -1, st.just(0))}
    return (tensor(draw, (draw(st.sampled_from([1, 2])), width), half), tensor(draw, (side, side), half)), options


def expected(x: torch.Tensor, rotation: torch.Tensor, dst_dtype: int = 1) -> Any:
    """Row by row, block by block; the data keeps the sums exact."""
    top, side, rows, scales = np.float32(127 if dst_dtype == 1 else 7), rotation.size(0), [], []
    for row in floats(x).astype(np.float64):
        blocks = [row[start : start + side] @ floats(rotation) for start in range(0, len(row), side)]
        rotated = floats(torch.from_numpy(np.concatenate(blocks)).to(x.dtype))
        largest = np.abs(rotated).max()
        rows.append(np.rint(rotated * (top / largest)) if largest else np.zeros_like(rotated))
        scales.append(largest * (np.float32(1) / top))
    whole = np.stack(rows).astype(np.int8)
    return whole if dst_dtype == 1 else pack(whole), np.asarray(scales, np.float32)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Numbers of few bits: sums of their products are exact in float32, in any order."""
    half = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def few(*shape: int) -> torch.Tensor:
        return (torch.randint(-32, 33, shape, generator=generator) / 8).to(half)

    side = draw(st.sampled_from([16, 32, 64]))
    dtype = draw(st.sampled_from([1, INT4_NUMBER]))
    return (few(draw(st.sampled_from([1, 3])), 128), few(side, side)), {"dst_dtype": dtype}


CALLS = {"npu_rotate_quant": calls()}
STATEMENTS = {"npu_rotate_quant": Statement(expected, with_data())}
