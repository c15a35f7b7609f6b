"""Calls of npu_add_rms_norm and its variants."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.arrays import rounded
from support.call_strategies import FLOATS, HALVES, SIZES, Draw, mostly, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
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
        ("more rows than cores", lambda: (bf16(41, 2016), bf16(41, 2016), bf16(2016))),
        ("no epsilon", lambda: (bf16(6, 16), bf16(6, 16), bf16(16), 0.0)),
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
            ("gamma.size(0)", "no columns", (f16(6, 0), f16(6, 0), f16(0)))
            if op == "add_rms_norm"
            else ("x1.size(0)", "no rows", (f16(0, 16), f16(0, 16), f16(16))),
            ("epsilon", "negative epsilon", (f16(6, 16), f16(6, 16), f16(16), -1e-6)),
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


CORES, ONE = 40, np.float32(1)


def terms(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> tuple[Any, Any, Any]:
    """y, rstd and the sum, by the kernel for this number of rows and width."""
    width, few = gamma.numel(), x1.numel() // gamma.numel() <= CORES
    wide = floats(x1) + floats(x2)
    x = rounded(wide, x1.dtype)
    squared = scaled = x
    if x1.dtype == torch.bfloat16 and (width > 12288 or (width > 2000 and not few)):
        squared = wide
        scaled = x if width > 12288 else wide
    squares = (squared.astype(np.float64) ** 2).sum(-1, keepdims=True).astype(np.float32)
    rstd = ONE / np.sqrt(squares * np.float32(1 / width) + np.float32(epsilon))
    return rounded(rounded(scaled * rstd, x1.dtype) * floats(gamma), x1.dtype), rstd, x


def terms_950(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> tuple[Any, Any, Any]:
    """Y before its rounding, rstd and the sum."""
    wide = floats(x1) + floats(x2)
    squares = (wide.astype(np.float64) ** 2).sum(-1, keepdims=True).astype(np.float32)
    rstd = ONE / np.sqrt(squares * np.float32(1 / gamma.numel()) + np.float32(epsilon))
    return wide * rstd * floats(gamma), rstd, rounded(wide, x1.dtype)


def of(*names: str, of_call: Any = terms) -> Any:
    """The results `names` of one call."""

    def expected(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> list[Any]:
        y, rstd, x = of_call(x1, x2, gamma, epsilon)
        halves = {"y": torch.from_numpy(y).to(x1.dtype), "x": torch.from_numpy(x).to(x1.dtype)}
        return [{**halves, "wide y": y, "rstd": rstd}[name] for name in names]

    return expected


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Integers whose sums the dtype has to round, so few that their squares add up exactly."""
    rows, width = draw(st.sampled_from([1, 3, CORES, CORES + 1])), draw(st.sampled_from([1, 7, 128, 2000, 2001, 8705]))
    if draw(st.integers(0, 9)) == 0:
        width = 12289
    make, base = draw(st.sampled_from([(f16, 2048), (bf16, 256), (bf16, 256)]))
    x1, x2 = make(rows, width) * 0, make(rows, width) * 0
    x1[:, :3] = base * (1 - 2 * (torch.arange(rows * min(width, 3)) % 2).reshape(rows, -1))
    x2[:, :3] = (torch.arange(rows * min(width, 3)).reshape(rows, -1) + 1) % 4
    return (x1, x2, make(width), draw(st.sampled_from([1e-6, 0.1]))), {}


STATEMENTS = {
    "npu_add_rms_norm": Statement(of("y", "rstd", "x"), with_data()),
    "npu_add_rms_norm_cast": Statement(of("wide y", "y", "rstd", "x"), with_data()),
    "npu_add_rms_norm_v2_functional": Statement(of("rstd", "y", "x"), with_data()),
}
STATEMENTS_950 = {
    "npu_add_rms_norm": Statement(of("y", "rstd", "x", of_call=terms_950), with_data()),
    "npu_add_rms_norm_cast": Statement(of("wide y", "y", "rstd", "x", of_call=terms_950), with_data()),
    "npu_add_rms_norm_v2": Statement(of("rstd", of_call=terms_950), with_data()),
    "npu_add_rms_norm_v2_functional": Statement(of("rstd", "y", "x", of_call=terms_950), with_data()),
}

GOLDEN = {"add_rms_norm-bfloat16": (torch_npu.npu_add_rms_norm, (bf16(4, 16), bf16(4, 16), bf16(16)))}
