"""Calls of npu_add_rms_norm_dynamic_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import DESTINATIONS, HALVES, SEEDS, SIZES, Draw, optional, tensor
from support.call_table import INT4, Case, Statement, bad, good
from support.numpy_rules import floats, integers, pack
from support.tensors import bf16, f16, f32

OP = "add_rms_norm_dynamic_quant"
X = (f16(6, 16), f16(6, 16), f16(16))
GOOD = [
    good(OP, "plain", *X),
    good(OP, "bfloat16", bf16(2, 3, 16), bf16(2, 3, 16), bf16(16), epsilon=1e-5),
    good(OP, "one smooth scale", *X, smooth_scale1=f16(16)),
    good(OP, "two smooth scales", *X, smooth_scale1=f16(16), smooth_scale2=f16(16)),
    good(OP, "beta", *X, beta=f16(16), smooth_scale1=f16(16)),
    good(OP, "both masked in", *X, output_mask=[True, True]),
    good(OP, "the second alone", *X, smooth_scale2=f16(16), output_mask=[False, True]),
    good(OP, "int4", *X, y_dtype=INT4),
    good(OP, "two of int4", bf16(2, 3, 16), bf16(2, 3, 16), bf16(16), output_mask=[True, True], y_dtype=INT4),
    good(OP, "int8 by name", *X, y_dtype=torch.int8),
    good(OP, "one row", f16(1, 16), f16(1, 16), f16(16)),
]
WRONG = [
    bad(OP, "x1", "float32", f32(6, 16), f32(6, 16), f32(16)),
    bad(OP, "x1", "one dimension", f16(16), f16(16), f16(16)),
    bad(OP, "x2", "x2 of another dtype", f16(6, 16), bf16(6, 16), f16(16)),
    bad(OP, "gamma", "gamma of two dimensions", f16(2, 3, 16), f16(2, 3, 16), f16(3, 16)),
    bad(OP, "smooth_scale1", "smooth scale of another dtype", *X, smooth_scale1=bf16(16)),
    bad(OP, "smooth_scale1", "smooth scale of two dimensions", *X, smooth_scale1=f16(1, 16)),
    bad(OP, "smooth_scale2.size(0)", "smooth scale too short", *X, smooth_scale1=f16(16), smooth_scale2=f16(8)),
    bad(OP, "beta", "beta of another dtype", *X, beta=f32(16)),
    bad(OP, "output_mask", "nothing wanted", *X, output_mask=[False, False]),
    bad(OP, "smooth_scale1", "the second smooth scale alone", *X, smooth_scale2=f16(16)),
    bad(OP, "output_mask[1]", "a smooth scale for nothing", *X, smooth_scale2=f16(16), output_mask=[True, False]),
    bad(OP, "y_dtype", "uint8", *X, y_dtype=torch.uint8),
    bad(OP, "x1.size(-1)", "width not of eights", f16(6, 12), f16(6, 12), f16(12), y_dtype=INT4),
    bad(OP, "epsilon", "no epsilon", *X, epsilon=0.0),
    bad(OP, "gamma.size(0)", "no columns", f16(6, 0), f16(6, 0), f16(0)),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=3)))
    x1 = tensor(draw, shape, *HALVES)
    options = {
        "smooth_scale1": optional(draw, shape[-1:], x1.dtype),
        "smooth_scale2": optional(draw, shape[-1:], x1.dtype),
        "output_mask": draw(st.sampled_from([None, [True, True], [True, False], [False, True]])),
        "y_dtype": draw(DESTINATIONS),
    }
    return (x1, tensor(draw, shape, x1.dtype), tensor(draw, shape[-1:], x1.dtype)), options


CALLS = {f"npu_{OP}": calls()}


def expected(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, **options: Any) -> list[Any]:
    """Step by step in float32, with torch's order of addition, on which the integers depend."""
    wide = floats(x1) + floats(x2)
    squares = torch.from_numpy(wide * wide).sum(-1, keepdim=True).numpy()
    rstd = np.float32(1) / np.sqrt(squares * np.float32(1 / wide.shape[-1]) + np.float32(1e-6))
    normed = wide * rstd * floats(gamma)
    if options["beta"] is not None:
        normed = normed + floats(options["beta"])
    kind, most = ("int4", 7) if options["y_dtype"] is INT4 else ("int8", 127)
    values = normed * floats(options["smooth_scale1"])
    multiplier = np.float32(most) / np.abs(values).max(-1, keepdims=True)
    y = integers(values * multiplier, kind)
    x = torch.from_numpy(wide).to(x1.dtype)
    stored = pack(y) if kind == "int4" else y
    return [stored, np.zeros((), stored.dtype), x, (np.float32(1) / multiplier)[..., 0], np.zeros((), np.float32)]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    rows, width = draw(st.integers(1, 4)), draw(st.sampled_from([8, 16, 128]))
    make = draw(st.sampled_from([f16, bf16]))
    options = {
        "smooth_scale1": make(width),
        "beta": draw(st.sampled_from([None, make(width)])),
        "y_dtype": draw(st.sampled_from([None, INT4])),
    }
    return (make(rows, width), make(rows, width), make(width)), options


STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}


def golden(kind: torch.dtype) -> Case:
    return lambda *x: torch_npu.npu_add_rms_norm_dynamic_quant(*x, y_dtype=kind), X


GOLDEN = {f"{OP}-int8": golden(torch.int8), f"{OP}-int4": golden(INT4)}
