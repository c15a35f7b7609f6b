"""Calls of npu_add_rms_norm_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.arrays import rounded
from support.call_strategies import HALVES, SIZES, Draw, optional, tensor
from support.call_table import INT4, Statement, bad, good
from support.numpy_rules import floats, integers
from support.tensors import bf16, f16, f32, i8, i32, small32

OP = "add_rms_norm_quant"


def scale(make: Any, *shape: int) -> torch.Tensor:
    """Scales that keep most results in the range of int8, some below zero."""
    return make(*shape).clamp(-9, 9) / 100 + 0.001


X, B = (f16(6, 16), f16(6, 16), f16(16)), (bf16(2, 3, 16), bf16(2, 3, 16), bf16(16))
S, Z, SB, ZB = scale(f32, 16), small32(16) // 20, scale(bf16, 16), bf16(16)
ONE = (scale(f32, 1), small32(1) // 20)
GOOD = [
    good(OP, "float16", *X, S, Z),
    good(OP, "bfloat16", *B, SB, ZB, epsilon=1e-5),
    good(OP, "bfloat16 by float32 scales", *B, S, Z),
    good(OP, "beta of bfloat16", *B, SB, ZB, bf16(16)),
    good(OP, "two results", *X, S, Z, None, scale(f32, 16), small32(16) // 30),
    good(OP, "by product", *X, f32(16) * 9, Z, None, f32(16), div_mode=False),
    good(OP, "two dimensions normalised", *(f16(2, 3, 16), f16(2, 3, 16), f16(3, 16)), scale(f32, 3, 16), None),
    good(OP, "narrow scales and zero points", *X, scale(f16, 16), i8(16)),
    good(OP, "one scale", *X, *ONE, f16(16)),
    good(OP, "one scale of bfloat16", *B[:2], bf16(1, 16), scale(bf16, 1), bf16(1), bf16(1, 16)),
    good(OP, "no rows", f16(0, 16), f16(0, 16), f16(16), S, Z),
]
WRONG = [
    bad(OP, "x1", "float32", f32(6, 16), f32(6, 16), f32(16), S, Z),
    bad(OP, "x1", "nine dimensions", *[f16(1, 1, 1, 1, 1, 1, 1, 2, 16)] * 2, f16(16), S, Z),
    bad(OP, "x2", "x2 of another dtype", f16(6, 16), bf16(6, 16), f16(16), S, Z),
    bad(OP, "x2.size(0)", "x2 of fewer rows", f16(6, 16), f16(1, 16), f16(16), S, Z),
    bad(OP, "gamma", "gamma of another dtype", *X[:2], f32(16), S, Z),
    bad(OP, "gamma.size(-1)", "gamma too short", *X[:2], f16(8), scale(f32, 8), None),
    bad(OP, "gamma.size(0)", "two gammas beside one scale", *X[:2], f16(2, 16), *ONE, f16(2, 16)),
    bad(OP, "gamma.size(1)", "a short gamma beside one scale", *X[:2], f16(1, 8), *ONE, f16(1, 8)),
    bad(OP, "scales1", "bfloat16 scales of float16", *X, SB, ZB),
    bad(OP, "scales1", "scales of another rank", *X, scale(f32, 1, 16), Z),
    bad(OP, "scales1.size(0)", "one scale without beta", *X, *ONE),
    bad(OP, "zero_points1", "float zero points", *X, S, f32(16)),
    bad(OP, "zero_points1", "integers beside bfloat16", *B, SB, Z),
    bad(OP, "zero_points1.size(0)", "one zero point", *X, S, Z[:1]),
    bad(OP, "zero_points1.size(0)", "zero points beside one scale", *X, ONE[0], Z, f16(16)),
    bad(OP, "zero_points1", "zero points of no dimension beside one scale", *X, ONE[0], i32(), f16(16)),
    bad(OP, "beta", "beta of another dtype", *X, S, Z, bf16(16)),
    bad(OP, "beta.size(0)", "beta too short", *X, S, Z, f16(8)),
    bad(OP, "scales2", "another kind of scales", *B, S, Z, None, SB),
    bad(OP, "scales2.size(0)", "one second scale", *X, S, Z, None, scale(f32, 1)),
    bad(OP, "zero_points2", "narrow second zero points", *X, S, Z, None, S, i8(16)),
    bad(OP, "zero_points2.size(0)", "one second zero point", *X, S, Z, None, S, Z[:1]),
    bad(OP, "axis", "another axis", *X, S, Z, axis=0),
    bad(OP, "dst_type", "int4", *X, S, Z, dst_type=INT4),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    x1 = tensor(draw, shape, *HALVES)
    row = shape[-draw(st.integers(1, len(shape))) :]
    kinds = draw(st.sampled_from([(torch.float32, torch.int32), (torch.bfloat16, torch.bfloat16)]))
    small = draw(st.sampled_from([row, row, (1,)]))
    first = tensor(draw, small, kinds[0]), optional(draw, small, kinds[1])
    second = optional(draw, row, x1.dtype), optional(draw, row, kinds[0]), optional(draw, row, kinds[1])
    options = {"div_mode": draw(st.booleans()), "axis": draw(st.sampled_from([-1, -1, -1, 0]))}
    return (x1, tensor(draw, shape, x1.dtype), tensor(draw, row, x1.dtype), *first, *second), options


CALLS = {f"npu_{OP}": calls()}


def room(scales2: Any, zero2: Any) -> int:
    """The most elements of a row for the kernel for few rows, which has 191 KiB."""
    bytes_an_element = 16 + 4 + 4 + (4 if zero2 is not None else 0)
    return 12224 if scales2 is None else (196608 - 1024) // bytes_an_element // 32 * 32


def expected(*args: Any, **options: Any) -> list[Any]:
    """Step by step, with torch's order of addition, on which the integers depend."""
    x1, x2, gamma = args[:3]
    scales1, zero1, beta, scales2, zero2 = (None if tensor is None else floats(tensor) for tensor in args[3:])
    is_half, per_tensor = x1.dtype == torch.float16, args[3].numel() == 1
    wide = floats(x1) + floats(x2)
    x = rounded(wide, x1.dtype)
    few = x1.numel() // gamma.numel() <= 40 and gamma.numel() <= room(scales2, zero2)
    if not per_tensor and (is_half or beta is not None or few):
        wide = x
    squares = torch.from_numpy(wide * wide).sum(-1, keepdim=True).numpy()
    normed = wide * (np.float32(1) / np.sqrt(squares * np.float32(1 / wide.shape[-1]) + np.float32(1e-6)))
    if is_half and not per_tensor:
        normed = rounded(rounded(normed, x1.dtype) * floats(gamma), x1.dtype)
    else:
        normed = normed * floats(gamma)
    normed = normed if beta is None else normed + beta

    def quantised(scales: Any, zero: Any) -> Any:
        if per_tensor:
            scaled = normed * (np.float32(1) / scales)
        else:
            scaled = normed / scales if options["div_mode"] else normed * scales
        return integers((scaled if zero is None else scaled + zero).astype(np.float32), "int8")

    second = np.zeros(wide.shape, np.int8) if scales2 is None else quantised(scales2, zero2)
    return [quantised(scales1, zero1), second, torch.from_numpy(x).to(x1.dtype)]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width = draw(st.sampled_from([1, 4, 40, 41])), draw(st.sampled_from([8, 16, 128]))
    if draw(st.integers(0, 4)) == 0:
        rows, width = 2, draw(st.sampled_from([6976, 6984, 8128, 8136, 12224, 12232]))
    make = draw(st.sampled_from([f16, bf16]))
    x = make(rows, width), make(rows, width)
    if draw(st.integers(0, 4)) == 0:
        one = scale(f32, 1), small32(1) // 20
        return (*x, make(1, width), *one, make(1, width), None, None), {"div_mode": True}
    maker = draw(st.sampled_from([f32, f16] if make is f16 else [f32, bf16]))
    kind, zero = (bf16, bf16(width)) if maker is bf16 else (f32, small32(width) // 20)
    second = draw(st.sampled_from([(None, None), (scale(kind, width), None), (scale(kind, width), zero)]))
    first = scale(maker, width), draw(st.sampled_from([None, zero])), draw(st.sampled_from([None, make(width)]))
    return (*x, make(width), *first, *second), {"div_mode": draw(st.booleans())}


STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}
GOLDEN = {
    f"{OP}-float16": (lambda *args: torch_npu.npu_add_rms_norm_quant(*args), (*X, S, Z)),
    f"{OP}-one-scale": (lambda *args: torch_npu.npu_add_rms_norm_quant(*args), (*X, *ONE, f16(16))),
}
