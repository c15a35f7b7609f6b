"""Calls of npu_swiglu_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import exp, numbers, to_int8
from support.call_strategies import Draw
from support.call_table import Case, Statement, bad, good
from support.tensors import bf16, ends, f16, f32, f64

OP = "swiglu_quant"
X, S, G = bf16(6, 16), f32(3, 8), ends(2, 2, 5)
DYNAMIC = {"smooth_scales": S, "group_index": G, "quant_mode": 1}
STATIC = {"smooth_scales": S, "offsets": f32(3, 8), "group_index": G}
GOOD = [
    good(OP, "as the document", f32(6, 16), **DYNAMIC, offsets=f32(3, 8), dst_type=torch.int8),
    good(OP, "counts", X, **{**DYNAMIC, "group_index": ends(2, 0, 3)}, group_list_type=1, activate_left=True),
    good(OP, "no groups", f16(2, 3, 16), smooth_scales=f32(1, 8), quant_mode=1),
    good(OP, "static", X, **STATIC),
    good(OP, "static, a number to a group", X, **{**STATIC, "smooth_scales": f32(3), "offsets": f32(3)}),
    good(OP, "static without groups", X, smooth_scales=f32(1), offsets=f32(1)),
    good(OP, "every row in a group", X, **{**DYNAMIC, "group_index": ends(1, 2, 6)}),
    good(OP, "no row in a group", X, **{**DYNAMIC, "group_index": ends(0, 0, 0)}),
    good(OP, "one row", f16(1, 16), **{**DYNAMIC, "group_index": ends(0, 1, 1)}),
    good(OP, "no rows", f16(0, 16), **{**DYNAMIC, "group_index": ends(0, 0, 0)}),
    good(OP, "to int4", X, **DYNAMIC, dst_type=torch.quint4x2),
    good(OP, "static to int4", f16(2, 3, 16), **{**STATIC, "group_index": G}, dst_type=torch.quint4x2),
    good(OP, "a row of zeros", X * ends(1, 0, 1, 0, 1, 0)[:, None], **DYNAMIC),
]
WRONG = [
    bad(OP, "x", "float64", f64(6, 16), **DYNAMIC),
    bad(OP, "x", "one dimension", f32(16), smooth_scales=f32(1, 8), quant_mode=1),
    bad(OP, "x.size(-1)", "odd", f32(6, 15), **DYNAMIC),
    bad(OP, "x.size(-1)", "no columns", f32(6, 0), smooth_scales=f32(1, 0), quant_mode=1),
    bad(OP, "x.size(-1)", "too wide", f32(1, 8194), smooth_scales=f32(1, 4097), quant_mode=1),
    bad(OP, "quant_mode", "quant_mode 2", X, **{**DYNAMIC, "quant_mode": 2}),
    bad(OP, "group_list_type", "group_list_type 2", X, **DYNAMIC, group_list_type=2),
    bad(OP, "dst_type", "to qint8", X, **DYNAMIC, dst_type=torch.qint8),
    bad(OP, "x.size(-1)", "half a byte", f32(6, 10), smooth_scales=f32(1, 5), quant_mode=1, dst_type=torch.quint4x2),
    bad(OP, "dst_type", "to int32", X, **DYNAMIC, dst_type=torch.int32),
    bad(OP, "group_index", "int64 groups", X, **{**DYNAMIC, "group_index": G.long()}),
    bad(OP, "group_index", "groups of two dimensions", X, **{**DYNAMIC, "group_index": G[None]}),
    bad(OP, "group_index.size(0)", "empty list", X, smooth_scales=f32(0, 8), group_index=ends(), quant_mode=1),
    bad(
        OP,
        "group_index.size(0)",
        "1025 groups",
        X,
        smooth_scales=f32(1025, 8),
        group_index=torch.zeros(1025, dtype=torch.int32),
        quant_mode=1,
    ),
    bad(OP, "smooth_scales", "no scales", X, quant_mode=1),
    bad(OP, "smooth_scales", "half scales", X, **{**DYNAMIC, "smooth_scales": f16(3, 8)}),
    bad(OP, "smooth_scales", "dynamic, a number to a group", X, **{**DYNAMIC, "smooth_scales": f32(3)}),
    bad(OP, "smooth_scales.size(0)", "scales of two groups", X, **{**DYNAMIC, "smooth_scales": f32(2, 8)}),
    bad(OP, "smooth_scales.size(1)", "narrow scales", X, **{**DYNAMIC, "smooth_scales": f32(3, 7)}),
    bad(OP, "offsets", "static without offsets", X, **{**STATIC, "offsets": None}),
    bad(OP, "offsets", "half offsets", X, **{**STATIC, "offsets": f16(3, 8)}),
    bad(OP, "offsets", "offsets of another rank", X, **{**STATIC, "offsets": f32(3)}),
    bad(OP, "offsets.size(1)", "narrow offsets", X, **{**STATIC, "offsets": f32(3, 7)}),
]
WRONG_VALUES = [
    bad(OP, "group_index", "more rows than x", X, **{**DYNAMIC, "group_index": ends(2, 2, 7)}),
    bad(OP, "group_index[1]", "falling", X, **{**DYNAMIC, "group_index": ends(2, 1, 5)}),
    bad(OP, "group_index[1]", "negative", X, **{**DYNAMIC, "group_index": ends(2, -1, 1)}, group_list_type=1),
]


def golden(x: torch.Tensor, s: torch.Tensor, g: torch.Tensor) -> Any:
    return torch_npu.npu_swiglu_quant(x, smooth_scales=s, group_index=g, quant_mode=1)


def golden_int4(x: torch.Tensor, s: torch.Tensor) -> Any:
    return torch_npu.npu_swiglu_quant(x, smooth_scales=s, quant_mode=1, dst_type=torch.quint4x2)


GOLDEN: dict[str, Case] = {OP: (golden, (X, S, G)), f"{OP}-int4": (golden_int4, (X, f32(1, 8)))}


def expected(
    x: torch.Tensor,
    smooth_scales: torch.Tensor,
    offsets: Any = None,
    group_index: Any = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    group_list_type: int = 0,
    dst_type: torch.dtype | None = None,
) -> list[Any]:
    """Row by row, following the source of the kernels."""
    rows, half = numbers(x).reshape(-1, x.size(-1)), x.size(-1) // 2
    ends_of = np.array([len(rows)]) if group_index is None else group_index.numpy()
    ends_of = np.cumsum(ends_of) if group_list_type == 1 and group_index is not None else ends_of
    y, scales = np.zeros((len(rows), half), np.int8), np.zeros(len(rows), np.float32)
    for r, row in enumerate(rows):
        a, b = (row[:half], row[half:]) if activate_left else (row[half:], row[:half])
        s = (a / (np.float32(1) + exp(-a))) * b
        group = next((g for g, end in enumerate(ends_of) if end >= r + 1), None)
        if group is not None:
            s = s * smooth_scales.numpy()[group]
            s = s if quant_mode else s + offsets.numpy()[group]
        with np.errstate(all="ignore"):
            if quant_mode:
                scales[r] = np.float32(7 if dst_type else 127) / np.abs(s).max()
                s = s * scales[r]
            y[r] = np.clip(to_int8(s), -8, 7) if dst_type else to_int8(s)
    if dst_type:
        half, y = half // 2, (y[:, ::2] & 15) | (y[:, 1::2] << 4)
    return [y.reshape(*x.shape[:-1], half), scales.reshape(x.shape[:-1])]


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    leading = [data.one_of(0, 1, 2, 7) for _ in range(data.one_of(1, 2))]
    half, groups, mode = data.one_of(1, 2, 8, 9), data.one_of(1, 3), data.one_of(0, 1)
    height, kind = int(np.prod(leading)), data.one_of(0, 1)
    options: dict[str, Any] = {"quant_mode": mode, "group_list_type": kind, "activate_left": data.one_of(True, False)}
    if data.one_of(True, False):
        cuts = np.sort(data.random.integers(0, height + 1, groups)).astype(np.int32)
        options["group_index"] = torch.from_numpy(np.diff(cuts, prepend=np.int32(0)) if kind else cuts)
    else:
        groups = 1
    shape = (groups,) if not mode and data.one_of(True, False) else (groups, half)
    options["smooth_scales"] = data.floats(torch.float32, *shape)
    if not mode:
        options["offsets"] = data.floats(torch.float32, *shape)
    if half % 2 == 0 and data.one_of(True, False):
        options["dst_type"] = torch.quint4x2
    x = data.floats(data.one_of(torch.float32, torch.float16, torch.bfloat16), *leading, 2 * half)
    return (x,), options


STATEMENTS = {f"npu_{OP}": Statement(expected, calls())}
