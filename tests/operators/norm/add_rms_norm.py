"""Calls of npu_add_rms_norm and its kin."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call import Statement, bad, good
from support.generated import FLOATS, HALVES, SIZES, Draw, mostly, tensor
from support.rules import floats
from support.tensors import bf16, f16, f32, i8

NAMES = ("add_rms_norm", "add_rms_norm_cast", "add_rms_norm_v2", "add_rms_norm_v2_functional")
GOOD = [
    good(op, label, *args)
    for op in NAMES
    for label, args in (
        ("float16", lambda: (f16(6, 16), f16(6, 16), f16(16))),
        ("bfloat16", lambda: (bf16(2, 3, 16), bf16(2, 3, 16), bf16(16), 1e-5)),
        ("two dimensions normalised", lambda: (f16(2, 3, 16), f16(2, 3, 16), f16(3, 16))),
        ("one row", lambda: (bf16(1, 16), bf16(1, 16), bf16(16))),
        ("one dimension", lambda: (f16(16), f16(16), f16(16))),
    )
    for args in [args()]
] + [good("add_rms_norm", "float32", f32(6, 16), f32(6, 16), f32(16))]
WRONG = [
    *(
        bad(op, argument, label, *args)
        for op in NAMES
        for argument, label, args in (
            ("x1", "int8", (i8(6, 16), i8(6, 16), f16(16))),
            ("x2", "another dtype", (f16(6, 16), bf16(6, 16), f16(16))),
            ("x2", "another rank", (f16(6, 16), f16(16), f16(16))),
            ("x2.size(0)", "fewer rows", (f16(6, 16), f16(1, 16), f16(16))),
            ("gamma", "gamma of another dtype", (f16(6, 16), f16(6, 16), f32(16))),
            ("gamma", "gamma of no dimension", (f16(6, 16), f16(6, 16), f16())),
            ("gamma.size(-1)", "gamma too short", (f16(6, 16), f16(6, 16), f16(8))),
            ("x1.size(0)", "no rows", (f16(0, 16), f16(0, 16), f16(16))),
        )
    ),
    bad("add_rms_norm_cast", "x1", "float32", f32(6, 16), f32(6, 16), f32(16)),
]


def calls(*dtypes: torch.dtype) -> Any:
    @st.composite
    def draw_call(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
        x1 = tensor(draw, shape, *dtypes)
        x2 = tensor(draw, mostly(draw, tuple(x1.shape), st.just(shape)), x1.dtype)
        return (x1, x2, tensor(draw, shape[-1:], x1.dtype)), {}

    return draw_call()


CALLS = {
    "npu_add_rms_norm": calls(*FLOATS),
    "npu_add_rms_norm_cast": calls(*HALVES),
    "npu_add_rms_norm_v2": calls(*FLOATS),
    "npu_add_rms_norm_v2_functional": calls(*FLOATS),
}


def terms(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> tuple[Any, Any, torch.Tensor]:
    """y, rstd and the sum: in float64 but for the roundings that the kernel states."""
    wide = floats(x1) + floats(x2)
    x = torch.from_numpy(wide).to(x1.dtype)
    seen = (floats(x) if x1.dtype == torch.float16 else wide).astype(np.float64)
    rstd = 1 / np.sqrt(np.mean(seen**2, axis=-1, keepdims=True) + epsilon)
    once = torch.from_numpy(seen * rstd).to(x1.dtype)
    return torch.from_numpy(floats(once) * floats(gamma)).to(x1.dtype), rstd.astype(np.float32), x


def of(*names: str) -> Any:
    """The results called `names`, of one call."""

    def expected(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> list[Any]:
        y, rstd, x = terms(x1, x2, gamma, epsilon)
        results = {"y": y, "wide y": y.float(), "rstd": rstd, "x": x}
        return [results[name] for name in names]

    return expected


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width = draw(st.integers(1, 4)), draw(st.sampled_from([1, 7, 16, 128]))
    make = draw(st.sampled_from([f16, bf16]))
    return (make(rows, width), make(rows, width) * 5, make(width), draw(st.sampled_from([1e-6, 0.1]))), {}


# The order of a float32 sum may move the first of two roundings to bfloat16 by a unit of it, 2**-8.
BOUND = 2**-7
STATEMENTS = {
    "npu_add_rms_norm": Statement(of("y", "rstd", "x"), with_data(), BOUND),
    "npu_add_rms_norm_cast": Statement(of("wide y", "y", "rstd", "x"), with_data(), BOUND),
    "npu_add_rms_norm_v2_functional": Statement(of("rstd", "y", "x"), with_data(), BOUND),
}

GOLDEN = {"add_rms_norm-bfloat16": (torch_npu.npu_add_rms_norm, (bf16(4, 16), bf16(4, 16), bf16(16)))}
