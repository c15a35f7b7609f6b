"""Calls of npu_clipped_swiglu."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import exp, numbers, rounded
from support.call_strategies import Draw
from support.call_table import Case, Statement, bad, good
from support.tensors import bf16, ends, f16, f32, f64

I64 = torch.int64
OP = "clipped_swiglu"
GOOD = [
    good(OP, "default", bf16(6, 16)),
    good(OP, "halves", f16(6, 10), interleaved=False, alpha=1.5, limit=2.0, bias=0.5),
    good(OP, "groups", f32(6, 4), group_index=ends(2, 0, 3, dtype=I64)),
    good(OP, "more in groups than rows", f32(3, 4), group_index=ends(2, 9, dtype=I64)),
    good(OP, "a dimension between", f16(2, 6, 3), dim=1),
    good(OP, "the first dimension", f32(4, 3), dim=0, interleaved=False),
    good(OP, "no rows", f16(0, 6), group_index=ends(0, dtype=I64)),
]
WRONG_950 = [
    bad(OP, "limit", "no limit", f16(6, 16), limit=0.0),
    bad(OP, "x.size(0)", "no rows", f16(0, 16)),
]
WRONG = [
    bad(OP, "x", "float64", f64(2, 4)),
    bad(OP, "x", "one dimension", f32(4)),
    bad(OP, "dim", "dim too low", f32(2, 4), dim=-3),
    bad(OP, "x.size(-1)", "odd", f32(2, 5)),
    bad(OP, "group_index", "int32 groups", f32(2, 4), group_index=ends(1)),
    bad(OP, "group_index", "groups of two dimensions", f32(2, 4), group_index=ends(1, dtype=I64)[None]),
    bad(OP, "group_index.size(0)", "no groups", f32(2, 4), group_index=ends(dtype=I64)),
    bad(OP, "group_index.size(0)", "8193 groups", f32(2, 4), group_index=torch.zeros(8193, dtype=I64)),
]
WRONG_VALUES = [bad(OP, "group_index[1]", "a negative count", f32(2, 4), group_index=ends(1, -1, dtype=I64))]


def golden(x: torch.Tensor, g: torch.Tensor) -> Any:
    return torch_npu.npu_clipped_swiglu(x, group_index=g)


GOLDEN: dict[str, Case] = {OP: (golden, (bf16(6, 16), ends(2, 3, dtype=I64)))}


def expected(x: torch.Tensor, dim: int = -1, interleaved: bool = True, group_index: Any = None, **options: Any) -> Any:
    alpha, limit, bias = (np.float32(options[name]) for name in ("alpha", "limit", "bias"))
    shape, dim = list(x.shape), dim % x.dim()
    rows = numbers(x).reshape(int(np.prod(shape[:dim])), int(np.prod(shape[dim:])))
    half = rows.shape[1] // 2
    a, b = (rows[:, ::2], rows[:, 1::2]) if interleaved else (rows[:, :half], rows[:, half:])
    a, b = np.minimum(a, limit), np.clip(b, -limit, limit) + bias
    y = rounded(b * (a / (np.float32(1) + exp(a * -alpha))), x.dtype)
    if group_index is not None:
        y[int(group_index.sum()) :] = 0
    shape[dim] //= 2
    return y.reshape(shape)


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    shape = [data.one_of(0, 1, 2, 7) for _ in range(data.one_of(2, 3))]
    dim = data.one_of(*range(-len(shape), len(shape)))
    shape[dim] *= 2
    options = {
        "dim": dim,
        "interleaved": data.one_of(True, False),
        "alpha": 1.702,
        "limit": data.one_of(0.5, 7.0),
        "bias": 0.25,
    }
    if data.one_of(True, False):
        options["group_index"] = torch.from_numpy(data.random.integers(0, 4, 2))
    return (data.floats(data.one_of(torch.float32, torch.float16, torch.bfloat16), *shape),), options


STATEMENTS = {f"npu_{OP}": Statement(expected, calls())}
STATEMENTS_950 = {f"npu_{OP}": Statement(expected, calls().filter(lambda call: call[0][0].numel()))}
