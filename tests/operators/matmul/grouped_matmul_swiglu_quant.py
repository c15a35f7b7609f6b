"""Calls of npu_grouped_matmul_swiglu_quant and its second version."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from operators.matmul.grouped_statement import in_halves, sizes_of
from support.arrays import exp, int4_elements, numbers, to_int8
from support.call_strategies import Draw
from support.call_table import Case, Statement, bad, good, packed
from support.tensors import bf16, ends, f16, f32, i8, i32, nz, small32, stored

I64 = torch.int64
ONE, TWO = "grouped_matmul_swiglu_quant", "grouped_matmul_swiglu_quant_v2"
X, W, S, T, G = i8(6, 32), i8(3, 32, 16), f32(3, 16) / 99, f32(6), ends(2, 2, 5, dtype=I64)
W4, P, B = i32(3, 32, 2), packed(16, 3), f32(3, 16)
X4 = i32(6, 4)
# Eagerly int8 weights are in FRACTAL_NZ, in whole blocks of 32 columns.
W8, S8 = i8(3, 32, 32), f32(3, 32) / 99


def first(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor = S, **options: Any) -> tuple[Any, ...]:
    return (x, nz(w), options.pop("group_list", G), s, options.pop("x_scale", T)), options


def second(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor = S, **options: Any) -> tuple[Any, ...]:
    return (
        x,
        [nz(w) if w.dtype == torch.int8 else w],
        [s],
        options.pop("x_scale", T),
        options.pop("group_list", G),
    ), options


def call(make: Any, op: str, label: str, version: Any, *args: Any, **options: Any) -> Any:
    positional, keywords = version(*args, **options)
    return make(op, label, *positional, **keywords)


def ok(label: str, version: Any, *args: Any, **options: Any) -> Any:
    return call(good, ONE if version is first else TWO, label, version, *args, **options)


def wrong(argument: str, label: str, version: Any, *args: Any, **options: Any) -> Any:
    positional, keywords = version(*args, **options)
    return bad(ONE if version is first else TWO, argument, label, *positional, **keywords)


ROW = {"x_scale": f32(1), "group_list": ends(1, dtype=I64)}
COUNTS = {"group_list": ends(2, 0, 3, dtype=I64), "group_list_type": 1}
GOOD = [
    ok("int8", first, X, W),
    ok("bfloat16 scale", first, X, W, bf16(3, 16)),
    ok("a8w4", first, X, W4, P, bias=B),
    ok("a8w4, uint64 scale", first, X, W4, P.view(torch.uint64), bias=B),
    ok("a8w4 in groups", first, X, W4, packed(16, 6).view(3, 2, 16), bias=B),
    ok("a8w4 of one int32", first, i8(1, 1), i32(1, 1, 1), packed(8, 1), bias=f32(1, 8), **ROW),
    ok("fewer groups than experts", first, X, W, group_list=ends(2, 6, dtype=I64)),
    ok("no rows", first, i8(0, 32), W, x_scale=f32(0), group_list=ends(0, 0, 0, dtype=I64)),
    ok("int8", second, X, W8, S8, **COUNTS, tuning_config=[3]),
    ok("float16 scale", second, X, W8, f16(3, 32), dequant_dtype=6),
    ok("as in the document's graph", second, X, W8, S8, quant_dtype=1, dequant_dtype=5),
    ok("a8w4", second, X, W4, P, weight_assist_matrix=[B], **COUNTS),
    ok("a8w4 in groups", second, X, W4, packed(16, 6).view(3, 2, 16), weight_assist_matrix=[B], dequant_mode=1),
    ok("a4w4", second, X4, W4, P, smooth_scale=f32(3, 8)),
    ok("a4w4, uint64 scale", second, X4, W4, P.view(torch.uint64)),
    ok("a8w4, uint64 scale", second, X, W4, P.view(torch.uint64), weight_assist_matrix=[B], **COUNTS),
    ok("a4w4 one smooth scale", second, X4, W4, P, smooth_scale=f32(3), **COUNTS),
]
WRONG = [
    wrong("offset", "offset", first, X, W, offset=f32(3, 16)),
    wrong("x", "a4w4", first, X4, W4),
    wrong("bias", "bias of int8", first, X, W, bias=small32(3, 16)),
    wrong("bias", "a8w4 without bias", first, X, W4, P),
    wrong("bias", "a8w4 with int32 bias", first, X, W4, P, bias=small32(3, 16)),
    wrong("bias.size(1)", "bias too narrow", first, X, W4, P, bias=f32(3, 8)),
    wrong("bias", "bias of one dimension", first, X, W4, P, bias=f32(3)),
    wrong("weight_scale.size(1)", "no group", first, X, W4, packed(16, 0).view(3, 0, 16), bias=B),
    wrong("x_dtype", "of Ascend 950", second, X, W, x_dtype=24),
    wrong("weight_dtype", "of Ascend 950", second, X, W, weight_dtype=24),
    wrong("weight_scale_dtype", "of Ascend 950", second, X, W, weight_scale_dtype=24),
    wrong("x_scale_dtype", "of Ascend 950", second, X, W, x_scale_dtype=24),
    bad(TWO, "weight", "two weights", X, [W, W], [S], T, G),
    bad(TWO, "weight_scale", "two scales", X, [W], [S, S], T, G),
    wrong("bias", "bias", second, X, W, bias=small32(3, 16)),
    wrong("quant_mode", "quant_mode 1", second, X, W, quant_mode=1),
    wrong("dequant_dtype", "through float64", second, X, W, dequant_dtype=7),
    wrong("quant_dtype", "to int32", second, X, W, quant_dtype=3),
    wrong("group_list_type", "sparse", second, X, W, group_list_type=2),
    wrong("weight_assist_matrix", "two assist matrices", second, X, W4, P, weight_assist_matrix=[B, B]),
    wrong("weight_assist_matrix", "no assist matrix", second, X, W4, P),
    wrong("weight_assist_matrix", "assist matrix of int8", second, X, W, weight_assist_matrix=[B]),
    wrong("dequant_mode", "groups that are none", second, X, W, dequant_mode=1),
    wrong("smooth_scale", "smooth int8", second, X, W, smooth_scale=f32(3)),
    wrong("smooth_scale", "smooth float16", second, X4, W4, P, smooth_scale=f16(3)),
    wrong("smooth_scale", "smooth of three dimensions", second, X4, W4, P, smooth_scale=f32(3, 8, 1)),
    wrong("smooth_scale.size(1)", "smooth too narrow", second, X4, W4, P, smooth_scale=f32(3, 4)),
    wrong("x and weight", "int4 with int8", second, X4, W),
    wrong("x", "x of three dimensions", first, X[None], W),
    wrong("weight", "weight of five dimensions", first, X, W[None, None]),
    wrong("x.size(0)", "no rows", second, i8(0, 32), W, x_scale=f32(0)),
    wrong("k", "no depth", first, i8(6, 0), i8(3, 0, 16)),
    wrong("weight.size(1)", "other depth", first, X, i8(3, 16, 16)),
    wrong("weight", "int4 in a transposed view", first, X, i32(3, 2, 32).mT, P, bias=B),
    wrong("n", "odd width", first, X, i8(3, 32, 15), f32(3, 15)),
    wrong(
        "n", "too wide", first, i8(1, 1), i8(1, 1, 10242), f32(1, 10242), x_scale=f32(1), group_list=ends(1, dtype=I64)
    ),
    wrong(
        "k",
        "too deep",
        first,
        i8(1, 20000),
        i32(1, 20000, 1),
        packed(8, 1),
        bias=f32(1, 8),
        x_scale=f32(1),
        group_list=ends(1, dtype=I64),
    ),
    wrong("k", "too deep int4", second, i32(1, 2500), i32(1, 20000, 1), packed(8, 1), **ROW),
    wrong("weight_scale", "packed scale of int8", first, X, W, P),
    wrong("weight_scale", "float scale of int4 x", second, X4, W4, S),
    wrong("weight_scale", "int4 x in groups", second, X4, W4, packed(16, 6).view(3, 2, 16)),
    wrong("weight_scale", "scale of three dimensions", first, X, W, S[None]),
    wrong("weight_scale.size(0)", "scale of two experts", first, X, W, S[:2]),
    wrong("weight_scale.size(1)", "groups that do not divide k", first, X, W4, packed(16, 9).view(3, 3, 16), bias=B),
    wrong("x_scale", "tokens float16", first, X, W, x_scale=f16(6)),
    wrong("x_scale.size(0)", "a token short", first, X, W, x_scale=f32(5)),
    wrong("group_list", "groups int32", first, X, W, group_list=G.int()),
    wrong("group_list", "groups of two dimensions", first, X, W, group_list=G[None]),
    wrong("group_list.size(0)", "no groups", first, X, W, group_list=ends(dtype=I64)),
    wrong("group_list.size(0)", "more groups than experts", first, X, W, group_list=ends(1, 2, 3, 4, dtype=I64)),
    wrong(
        "weight.size(0)",
        "1025 experts",
        first,
        i8(1, 1),
        i8(1025, 1, 2),
        f32(1025, 2),
        x_scale=f32(1),
        group_list=ends(1, dtype=I64),
    ),
]
WRONG_VALUES = [
    wrong("group_list[1]", "ends that fall", first, X, W, group_list=ends(3, 2, 5, dtype=I64)),
    wrong("group_list", "more rows than x", second, X, W8, S8, group_list=ends(2, 2, 5, dtype=I64), group_list_type=1),
]

WRONG_FORMATS = [
    bad(TWO, "weight[0]", "int4 in NC1HWC0", X, [stored(W4, 3)], [P], T, G, weight_assist_matrix=[B]),
    bad(ONE, "x", "x in FRACTAL_NZ", nz(X), nz(W), G, S, T),
    bad(ONE, "weight", "int8 in ND", X, W, G, S, T),
    bad(ONE, "weight", "int4 in ND", X, W4, G, P, T, bias=B),
    bad(TWO, "weight[0]", "int8 in ND", X, [W8], [S8], T, G),
    wrong("weight[0].size(1)", "broken blocks of rows", second, i8(6, 24), i8(3, 24, 32), S8),
    wrong("weight[0].size(2)", "broken blocks of columns", second, X, W),
]


def golden_one(
    x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, s: torch.Tensor, t: torch.Tensor, b: torch.Tensor
) -> Any:
    return torch_npu.npu_grouped_matmul_swiglu_quant(x, w, g, s, t, bias=b)


def golden_two(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, t: torch.Tensor, g: torch.Tensor) -> Any:
    return torch_npu.npu_grouped_matmul_swiglu_quant_v2(x, [w], [s], t, g, group_list_type=1)


GOLDEN: dict[str, Case] = {
    "grouped_matmul_swiglu_quant": (golden_one, (X, W4, G, P, T, B)),
    "grouped_matmul_swiglu_quant_v2": (golden_two, (X, W, S, T, COUNTS["group_list"])),
}


def stated(
    x: torch.Tensor,
    w: torch.Tensor,
    s: torch.Tensor,
    t: torch.Tensor,
    g: torch.Tensor,
    kind: int,
    assist: Any,
    smooth: Any,
    limit: float = 0.0,
) -> list[Any]:
    half = s.size(-1) // 2
    y, scales, start = np.zeros((len(x), half), np.int8), np.zeros(len(x), np.float32), 0
    left = (int4_elements(x) if x.dtype == torch.int32 else x.numpy()).astype(np.int64)
    for expert, size in sizes_of(g, kind):
        right = (int4_elements(w[expert]) if w.dtype == torch.int32 else w[expert].numpy()).astype(np.int64)
        rows, tokens = left[start : start + size], t[start : start + size].numpy()[:, None]
        if assist is not None:
            high, low = (in_halves(part, right, s[expert].numpy()) for part in (rows // 16, rows % 16 - 8))
            v = (high * np.float32(16) + low + assist[expert].numpy()) * tokens
        elif x.dtype == torch.int32:
            v = in_halves(rows, right, s[expert].numpy()) * tokens
        else:
            v = (rows @ right).astype(np.float32) * tokens * numbers(s[expert])
        a, b = v[:, :half], v[:, half:]
        if limit > 0:
            a, b = np.minimum(a, np.float32(limit)), np.clip(b, -np.float32(limit), np.float32(limit))
        with np.errstate(all="ignore"):
            gate = b * (a / (np.float32(1) + exp(-a)))
            gate = gate if smooth is None else gate * smooth[expert].numpy()
            for r, row in enumerate(gate):
                largest = np.abs(row).max()
                scales[start + r] = largest / np.float32(127)
                inverse = np.float32(127) / largest if x.dtype == torch.int32 else np.float32(1) / scales[start + r]
                y[start + r] = to_int8((row * inverse).astype(np.float16).astype(np.float32))
        start += size
    return [y, scales]


def expected_one(
    x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, s: torch.Tensor, t: torch.Tensor, bias: Any = None
) -> list[Any]:
    return [*stated(x, w, s, t, g, 0, bias, None), np.zeros((), np.float32)]


def expected_two(x: torch.Tensor, w: Any, s: Any, t: torch.Tensor, g: torch.Tensor, **options: Any) -> list[Any]:
    assist, kind = options.get("weight_assist_matrix"), options.get("group_list_type", 0)
    return stated(x, w[0], s[0], t, g, kind, assist[0] if assist else None, options.get("smooth_scale"))


@st.composite
def calls(draw: Draw, second_version: bool) -> Call:
    data = Data(draw)
    rows = data.one_of(*([] if second_version else [0]), 1, 5, 9)
    experts, k, n = data.one_of(1, 3), data.one_of(8, 16), data.one_of(8, 24)
    form, kind = (
        data.one_of("a8w8", "a8w4", *(["a4w4"] if second_version else [])),
        data.one_of(0, 1) if second_version else 0,
    )
    x = data.int32(rows, k // 8) if form == "a4w4" else data.int8(rows, k)
    w = data.int8(experts, k, n) if form == "a8w8" else data.int32(experts, k, n // 8)
    tokens, groups, options = data.floats(torch.float32, rows), data.groups(experts, rows, kind), {}
    has_groups = form == "a8w4" and data.one_of(True, False)
    if form == "a8w4":
        scale = data.params(experts, 2, n) if has_groups else data.params(experts, n)
        assist = data.floats(torch.float32, experts, n)
        options = (
            {"weight_assist_matrix": [assist], "dequant_mode": int(has_groups)} if second_version else {"bias": assist}
        )
    elif form == "a4w4":
        scale = data.params(experts, n)
    else:
        scale = data.floats(data.one_of(torch.float32, torch.bfloat16), experts, n)
    if form == "a4w4" and data.one_of(True, False):
        options["smooth_scale"] = data.floats(torch.float32, *data.one_of((experts,), (experts, n // 2)))
    if second_version:
        return (x, [w], [scale], tokens, groups), {**options, "group_list_type": kind}
    return (x, w, groups, scale, tokens), options


STATEMENTS = {
    f"npu_{ONE}": Statement(expected_one, calls(False)),
    f"npu_{TWO}": Statement(expected_two, calls(True)),
}
