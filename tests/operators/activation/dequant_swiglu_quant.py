"""Calls of npu_dequant_swiglu_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from operators.matmul.grouped_statement import sizes_of
from support.arrays import exp, numbers, to_int8
from support.call_strategies import Draw
from support.call_table import Case, Statement, bad, good
from support.tensors import bf16, ends, f16, f32, small32

I64 = torch.int64
THREE, SPARSE = ends(2, 0, 3, dtype=I64), torch.tensor([[2, 3], [0, 2], [1, 0]])
X, W, A = small32(6, 64), f32(3, 64) / 99, f32(6)
INT = {"weight_scale": W, "activation_scale": A}
GROUPS = {**INT, "group_index": THREE, "quant_mode": 1}
PLAIN = {"weight_scale": f32(64) / 99, "activation_scale": A, "quant_mode": 1}
STATIC = {**INT, "group_index": THREE, "quant_scale": f32(3, 32), "quant_offset": f32(3, 32)}


def op(label: str, *args: Any, **kwargs: Any) -> Any:
    return good("dequant_swiglu_quant", label, *args, **kwargs)


GOOD = [
    op(
        "as public models, without groups",
        X,
        weight_scale=f32(64, 1),
        activation_scale=A,
        quant_scale=f32(32),
        activate_left=True,
        quant_mode=1,
    ),
    op("as public models, in groups", X, **GROUPS, quant_scale=f32(3, 32), activate_left=True),
    op("as public models, sparse", X, **{**GROUPS, "group_index": SPARSE}, quant_scale=f32(3, 32), activate_left=True),
    op(
        "three dimensions",
        small32(2, 3, 6),
        weight_scale=f32(6),
        activation_scale=f32(2, 3),
        bias=bf16(6),
        quant_mode=1,
    ),
    op("int32 bias", X, **PLAIN, bias=small32(64), quant_scale=f32(1)),
    op("float32 bias in groups", X, **GROUPS, bias=f32(3, 64)),
    op("int32 bias in groups", X, **GROUPS, bias=small32(3, 64), quant_scale=bf16(3, 32)),
    op("even and odd", X, **GROUPS, swiglu_mode=1, clamp_limit=2.0, glu_alpha=1.5, glu_bias=0.5),
    op("limited halves", X, **GROUPS, swiglu_mode=2, activate_left=True, clamp_limit=2.0),
    op("bfloat16", bf16(6, 64), quant_mode=1),
    op("bfloat16 in groups", bf16(6, 64), group_index=THREE, quant_scale=f16(3, 32), quant_mode=1, dst_type=1),
    op("float16 static", f16(6, 10), quant_scale=f32(5), quant_offset=f32(5)),
    op("one static scale", f16(6, 10), quant_scale=f32(1), quant_offset=f32(1), activate_dim=-1, round_mode=0),
    op("no static scale", X, weight_scale=f32(64)),
    op("static in groups", X, **STATIC),
    op("one static scale to a group", X, **{**STATIC, "quant_scale": f32(3), "quant_offset": f32(3)}),
    op("one group", X, weight_scale=f32(64), group_index=ends(4, dtype=I64), quant_scale=f32(32), quant_mode=1),
    op(
        "no rows",
        small32(0, 64),
        weight_scale=W,
        activation_scale=f32(0),
        group_index=ends(0, 0, 0, dtype=I64),
        quant_mode=1,
    ),
    op("a row of zeros", X * ends(1, 0, 1, 0, 0, 0)[:, None], **PLAIN),
]


def wrong(argument: str, label: str, *args: Any, **kwargs: Any) -> Any:
    return bad("dequant_swiglu_quant", argument, label, *args, **kwargs)


WRONG = [
    wrong("x", "one dimension", small32(64), **PLAIN),
    wrong("x", "three dimensions in groups", small32(1, 6, 64), **GROUPS),
    wrong("x", "float32", f32(6, 64), quant_mode=1),
    wrong("x", "float16 in groups", f16(6, 64), group_index=THREE, quant_mode=1),
    wrong("x.size(-1)", "odd", small32(6, 63), weight_scale=f32(63)),
    wrong("x.size(-1)", "no columns", small32(6, 0), weight_scale=f32(0)),
    wrong(
        "x.size(-1)", "groups of 32 columns", small32(6, 32), weight_scale=f32(3, 32), group_index=THREE, quant_mode=1
    ),
    wrong("x.size(-1)", "too wide in groups", bf16(1, 10560), group_index=ends(1, dtype=I64), quant_mode=1),
    wrong("quant_mode", "quant_mode 2", X, **{**PLAIN, "quant_mode": 2}),
    wrong("swiglu_mode", "swiglu_mode 3", X, **GROUPS, swiglu_mode=3),
    wrong("swiglu_mode", "swiglu_mode without groups", X, **PLAIN, swiglu_mode=1),
    wrong("clamp_limit", "no limit", X, **GROUPS, clamp_limit=0.0),
    wrong("glu_alpha", "endless", X, **GROUPS, glu_alpha=float("inf")),
    wrong("glu_bias", "endless bias", X, **GROUPS, glu_bias=float("inf")),
    wrong("dst_type", "to int32", X, **PLAIN, dst_type=3),
    wrong("round_mode", "trunc", X, **PLAIN, round_mode=4),
    wrong("activate_dim", "rows", X, **PLAIN, activate_dim=0),
    wrong("group_index", "no dimension", X, **{**GROUPS, "group_index": THREE[0]}),
    wrong("group_index", "int32 groups", X, **{**GROUPS, "group_index": THREE.int()}),
    wrong("group_index", "groups of three dimensions", X, **{**GROUPS, "group_index": SPARSE[None]}),
    wrong("group_index.size(0)", "no groups", X, weight_scale=f32(0, 64), group_index=ends(dtype=I64), quant_mode=1),
    wrong("group_index.size(1)", "groups of three columns", X, **{**GROUPS, "group_index": SPARSE.repeat(1, 2)[:, :3]}),
    wrong("group_index", "sparse with a bias", X, **{**GROUPS, "group_index": SPARSE}, bias=f32(3, 64)),
    wrong("activation_scale", "scale of bfloat16", bf16(6, 64), activation_scale=A, quant_mode=1),
    wrong("bias", "bias of bfloat16", bf16(6, 64), bias=f32(64), quant_mode=1),
    wrong("weight_scale", "no weight_scale", X, activation_scale=A, quant_mode=1),
    wrong("weight_scale", "bfloat16 weight_scale", X, **{**PLAIN, "weight_scale": bf16(64)}),
    wrong("weight_scale.numel()", "weight_scale too short", X, **{**PLAIN, "weight_scale": f32(32)}),
    wrong("weight_scale", "weight_scale of three dimensions", X, **{**GROUPS, "weight_scale": f32(1, 3, 64)}),
    wrong("weight_scale.size(-1)", "weight_scale too narrow", X, **{**GROUPS, "weight_scale": f32(3, 32)}),
    wrong("weight_scale.size(0)", "weight_scale of two groups", X, **{**GROUPS, "weight_scale": f32(2, 64)}),
    wrong("weight_scale", "one row for three groups", X, **{**GROUPS, "weight_scale": f32(64)}),
    wrong("activation_scale", "half a scale", X, **{**PLAIN, "activation_scale": f16(6)}),
    wrong("activation_scale.numel()", "a token short", X, **{**PLAIN, "activation_scale": f32(5)}),
    wrong("bias", "int64 bias", X, **PLAIN, bias=small32(64).long()),
    wrong("bias.numel()", "bias too short", X, **PLAIN, bias=f32(32)),
    wrong("quant_offset", "dynamic offset", X, **PLAIN, quant_scale=f32(32), quant_offset=f32(32)),
    wrong("quant_scale", "static groups without scale", X, **{**STATIC, "quant_scale": None}),
    wrong("quant_offset", "offset alone", X, weight_scale=f32(64), quant_offset=f32(32)),
    wrong("quant_offset", "scale alone", X, weight_scale=f32(64), quant_scale=f32(32)),
    wrong("quant_scale", "bfloat16 scale without groups", X, **PLAIN, quant_scale=bf16(32)),
    wrong("quant_offset", "offset of another dtype", X, **{**STATIC, "quant_offset": f16(3, 32)}),
    wrong("quant_offset", "offset of another rank", X, **{**STATIC, "quant_offset": f32(96)}),
    wrong("quant_offset.numel()", "offset too short", X, **{**STATIC, "quant_offset": f32(2, 32)}),
    wrong("quant_scale.numel()", "scale too short", X, **PLAIN, quant_scale=f32(16)),
    wrong("quant_scale.size(0)", "two static scales", X, **{**STATIC, "quant_scale": f32(2), "quant_offset": f32(2)}),
    wrong("quant_scale.size(-1)", "scale too narrow in groups", X, **GROUPS, quant_scale=f32(3, 16)),
]
WRONG_VALUES = [
    wrong("group_index", "more rows than x", X, **{**GROUPS, "group_index": ends(2, 2, 3, dtype=I64)}),
    wrong("group_index[1]", "a negative count", X, **{**GROUPS, "group_index": ends(2, -1, 3, dtype=I64)}),
    wrong("group_index[0][0]", "a group that is not", X, **{**GROUPS, "group_index": SPARSE + 1}),
]


def golden(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, q: torch.Tensor, g: torch.Tensor) -> Any:
    options = {"weight_scale": w, "activation_scale": a, "quant_scale": q, "group_index": g}
    return torch_npu.npu_dequant_swiglu_quant(x, **options, activate_left=True, quant_mode=1)


GOLDEN: dict[str, Case] = {"dequant_swiglu_quant": (golden, (X, W, A, f32(3, 32), THREE))}


def expected(x: torch.Tensor, **options: Any) -> list[Any]:
    """Row by row, following the source of the kernels."""
    mode, left = options.get("swiglu_mode", 0), options.get("activate_left", False)
    limit, alpha, more = (
        np.float32(options.get(name, value))
        for name, value in (("clamp_limit", 7.0), ("glu_alpha", 1.702), ("glu_bias", 1.0))
    )
    dynamic, index = options.get("quant_mode", 0) == 1, options.get("group_index")
    rows, half = x.reshape(-1, x.size(-1)), x.size(-1) // 2
    groups = [(0, len(rows))] if index is None else sizes_of(index, 2 if index.dim() == 2 else 1)
    y, scales = np.zeros((len(rows), half), np.int8), np.zeros(len(rows), np.float32)

    def row(name: str, group: int, width: int) -> Any:
        value = options.get(name)
        return None if value is None else numbers(value.reshape(-1, width))[group]

    start = 0
    for group, size in groups:
        for r in range(start, start + size):
            v = numbers(rows[r])
            if x.dtype == torch.int32:
                bias = row("bias", group, x.size(-1))
                v = v + bias if bias is not None and bias.dtype == np.int32 else v
                v = v.astype(np.float32) * row("weight_scale", group, x.size(-1))
                if options.get("activation_scale") is not None:
                    v = v * options["activation_scale"].numpy().reshape(-1)[r]
                v = v + bias if bias is not None and bias.dtype != np.int32 else v
            a, b = (v[::2], v[1::2]) if mode == 1 else (v[:half], v[half:]) if left else (v[half:], v[:half])
            if mode:
                a, b = np.minimum(a, limit), np.clip(b, -limit, limit) + more
            s = b * (a / (np.float32(1) + exp(a * -(alpha if mode else np.float32(1)))))
            with np.errstate(all="ignore"):
                if dynamic:
                    smooth = options.get("quant_scale")
                    if smooth is not None:
                        s = s * row("quant_scale", group, 1 if smooth.numel() == 1 else half)
                    largest = np.abs(s).max()
                    if index is None:
                        scales[r] = largest / np.float32(127)
                        s = s * (np.float32(1) / scales[r])
                    else:
                        scales[r] = largest * np.float32(1.0 / 127.0)
                        s = s / scales[r]
                elif options.get("quant_scale") is not None:
                    one = options["quant_scale"].numel() == 1 if index is None else options["quant_scale"].dim() == 1
                    q, o = (row(name, group, 1 if one else half) for name in ("quant_scale", "quant_offset"))
                    inverse = np.float32(1) / q
                    if one and index is not None:
                        inverse = np.where(q == 0, np.float32(1), inverse)
                    s = (s * inverse if one else s / q) + o
                y[r] = to_int8(s)
        start += size
    return [y.reshape(*x.shape[:-1], half), scales.reshape(x.shape[:-1])]


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    rows, grouped = data.one_of(0, 1, 2, 5, 9), data.one_of(True, False)
    count, width = data.one_of(1, 2, 3) if grouped else 1, data.one_of(64, 128) if grouped else data.one_of(2, 6, 64)
    dtype = data.one_of(torch.int32, torch.int32, torch.bfloat16, *([] if grouped else [torch.float16]))
    x = data.int32(rows, width, low=-3000, high=3000) if dtype == torch.int32 else data.floats(dtype, rows, width)
    options: dict[str, Any] = {"activate_left": data.one_of(True, False), "quant_mode": data.one_of(0, 1, 1)}
    if dtype == torch.int32:
        options["weight_scale"] = data.floats(torch.float32, count, width)
        options["activation_scale"] = data.one_of(None, data.floats(torch.float32, rows))
        options["bias"] = data.one_of(
            None, data.int32(count, width, low=-99, high=99), data.floats(torch.bfloat16, count, width)
        )
    if grouped:
        kind = data.one_of(1, 1, 2) if dtype == torch.int32 and options["bias"] is None else 1
        options["group_index"] = data.groups(count, rows, kind)
        if kind == 1:
            options |= {"swiglu_mode": data.one_of(0, 1, 2), "clamp_limit": 0.5, "glu_alpha": 1.25}
    half = width // 2
    shape = (count, half) if grouped else data.one_of((half,), (1,))
    if not options["quant_mode"]:
        shape = data.one_of(shape, (count,)) if grouped else shape
        if grouped or data.one_of(True, False):
            options |= {name: data.floats(torch.float32, *shape) for name in ("quant_scale", "quant_offset")}
    elif data.one_of(True, False):
        options["quant_scale"] = data.floats(
            data.one_of(torch.float32, torch.float16) if grouped else torch.float32, *shape
        )
    return (x,), options


STATEMENTS = {"npu_dequant_swiglu_quant": Statement(expected, calls())}
