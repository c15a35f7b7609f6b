"""Calls of npu_grouped_matmul_finalize_routing."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from operators.matmul.grouped_statement import in_halves, sizes_of
from support.arrays import int4_elements, numbers
from support.call_strategies import Draw
from support.call_table import Case, Statement, bad, good, packed
from support.tensors import bf16, ends, f16, f32, i8, i32, nz, stored

I64 = torch.int64
OP = "grouped_matmul_finalize_routing"
X, W, G = i8(6, 16), nz(i8(3, 16, 256)), ends(2, 0, 3, dtype=I64)
ROUTED = {"pertoken_scale": f32(6), "logit": f32(6), "row_index": ends(0, 2, 1, 2, 0, 1, dtype=I64)}
INT8 = {"scale": f32(3, 256), **ROUTED}
X4, W4 = i8(6, 192), i32(3, 192, 9)
INT4 = {"scale": packed(72, 3)[:, None], "bias": f32(3, 72), **ROUTED}

GOOD = [
    good(OP, "int8", X, W, G, **INT8),
    good(OP, "int8 with one scale for all rows", X, W, G, **{**INT8, "pertoken_scale": None}),
    good(
        OP,
        "with shared experts",
        X,
        W,
        G,
        **INT8,
        shared_input=bf16(2, 256),
        shared_input_offset=1,
        output_bs=3,
        shared_input_weight=0.3,
    ),
    good(
        OP,
        "ends",
        X,
        W,
        ends(2, 2, 6, dtype=I64),
        **{**INT8, "row_index": ROUTED["row_index"].int()},
        group_list_type=0,
    ),
    good(OP, "int4", X4, W4, G, **INT4, shared_input=bf16(1, 72), tuning_config=[2]),
    good(
        OP,
        "int4 in FRACTAL_NZ",
        X4,
        nz(i32(3, 192, 16)),
        G,
        **{**INT4, "scale": packed(128, 3)[:, None], "bias": f32(3, 128)},
    ),
    good(OP, "int4 with offset", X4, W4, G, **INT4, offset=f32(3, 1, 72)),
]


def wrong(argument: str, label: str, *args: Any, **options: Any) -> Any:
    return bad(OP, argument, label, *args, **options)


SHARED = {**INT8, "shared_input": bf16(2, 256), "output_bs": 3}
WRONG = [
    *[
        wrong(name, "of Ascend 950", X, W, G, **INT8, **{name: 24})
        for name in ("x_dtype", "w_dtype", "scale_dtype", "pertoken_scale_dtype")
    ],
    wrong("dtype", "to bfloat16", X, W, G, **INT8, dtype=torch.bfloat16),
    wrong("group_list_type", "sparse", X, W, G, **INT8, group_list_type=2),
    wrong("x", "bfloat16", bf16(6, 16), W, G, **INT8),
    wrong("w", "float16", X, f16(3, 16, 256), G, **INT8),
    wrong("x", "x of three dimensions", X[None], W, G, **INT8),
    wrong("w", "w of two dimensions", X, W[0], G, **INT8),
    wrong(
        "x.size(0)",
        "no rows",
        i8(0, 16),
        W,
        G,
        scale=f32(3, 256),
        pertoken_scale=f32(0),
        logit=f32(0),
        row_index=ends(dtype=I64),
    ),
    wrong("x.size(0)", "too many rows", i8(131073, 16), W, G, **INT8),
    wrong("w.size(0)", "no experts", X, i8(0, 16, 256), G, **INT8),
    wrong("w.size(0)", "257 experts", X, i8(257, 16, 256), G, **INT8),
    wrong("w.size(1)", "other depth", X, i8(3, 32, 256), G, **INT8),
    wrong("scale", "no scale", X, W, G, **ROUTED),
    wrong("k", "k of 8", i8(6, 8), i8(3, 8, 256), G, **INT8),
    wrong("n", "n of 270", X, i8(3, 16, 270), G, **INT8),
    wrong("n", "n of 64", X, i8(3, 16, 64), G, **{**INT8, "scale": f32(3, 64)}),
    wrong("scale", "float16 scale", X, W, G, **{**INT8, "scale": f16(3, 256)}),
    wrong("scale.size(1)", "scale too narrow", X, W, G, **{**INT8, "scale": f32(3, 128)}),
    wrong("bias", "bias of int8", X, W, G, **INT8, bias=f32(3, 256)),
    wrong("offset", "offset of int8", X, W, G, **INT8, offset=f32(3, 1, 256)),
    wrong("k", "int4 k of 200", i8(6, 200), i32(3, 200, 9), G, **INT4),
    wrong("k", "int4 k of 128", i8(6, 128), i32(3, 128, 9), G, **INT4),
    wrong("k", "int4 too deep", i8(6, 18496), i32(3, 18496, 9), G, **INT4),
    wrong("n", "int4 n of 64", X4, i32(3, 192, 8), G, **INT4),
    wrong("scale", "int4 float scale", X4, W4, G, **{**INT4, "scale": f32(3, 1, 72)}),
    wrong("scale", "int4 scale of two dimensions", X4, W4, G, **{**INT4, "scale": packed(72, 3)}),
    wrong("bias", "int4 without bias", X4, W4, G, **{**INT4, "bias": None}),
    wrong("bias", "int4 float16 bias", X4, W4, G, **{**INT4, "bias": f16(3, 72)}),
    wrong("bias.size(1)", "int4 bias too narrow", X4, W4, G, **{**INT4, "bias": f32(3, 64)}),
    wrong("offset", "int4 float16 offset", X4, W4, G, **INT4, offset=f16(3, 1, 72)),
    wrong("offset.size(2)", "int4 offset too narrow", X4, W4, G, **INT4, offset=f32(3, 1, 64)),
    wrong("pertoken_scale", "no tokens", X4, W4, G, **{**INT4, "pertoken_scale": None}),
    wrong("logit", "no logit", X, W, G, **{**INT8, "logit": None}),
    wrong("row_index", "no row_index", X, W, G, **{**INT8, "row_index": None}),
    wrong("logit", "float16 logit", X, W, G, **{**INT8, "logit": f16(6)}),
    wrong("logit.size(0)", "a logit short", X, W, G, **{**INT8, "logit": f32(5)}),
    wrong("group_list", "int32 groups", X, W, G.int(), **INT8),
    wrong("group_list.size(0)", "a group short", X, W, G[:2], **INT8),
    wrong("output_bs", "negative output_bs", X, W, G, **INT8, output_bs=-1),
    wrong("output_bs", "output_bs above the rows", X, W, G, **INT8, output_bs=7),
    wrong("shared_input_offset", "negative offset", X, W, G, **SHARED, shared_input_offset=-1),
    wrong("shared_input", "float32 shared", X, W, G, **{**SHARED, "shared_input": f32(2, 256)}),
    wrong("shared_input", "shared of one dimension", X, W, G, **{**SHARED, "shared_input": bf16(256)}),
    wrong("shared_input.size(1)", "shared too narrow", X, W, G, **{**SHARED, "shared_input": bf16(2, 128)}),
    wrong("shared_input.size(0)", "nothing shared", X, W, G, **{**SHARED, "shared_input": bf16(0, 256)}),
    wrong("row_index", "int4 int32 rows", X4, W4, G, **{**INT4, "row_index": ROUTED["row_index"].int()}),
    wrong("tuning_config[0]", "negative tuning", X, W, G, **INT8, tuning_config=[-1]),
    wrong("tuning_config[0]", "tuning above the rows", X, W, G, **INT8, tuning_config=[7]),
    wrong("shared_input", "shared below the tokens", X, W, G, **SHARED, shared_input_offset=2),
]
WRONG_FORMATS = [
    wrong("x", "x in FRACTAL_NZ", nz(X), W, G, **INT8),
    wrong("w", "int8 weights in row-major order", X, W.clone(), G, **INT8),
    wrong("w", "int4 in NC1HWC0", X4, stored(W4, 3), G, **INT4),
    wrong("n must be", "int4 of 72 columns in FRACTAL_NZ", X4, nz(W4), G, **INT4),
]
WRONG_VALUES = [
    wrong(
        "row_index[3]",
        "a token that is not",
        X,
        W,
        G,
        **{**INT8, "row_index": ends(0, 1, 2, 3, 0, 0, dtype=I64)},
        output_bs=3,
    ),
    wrong("group_list", "more rows than x", X, W, G + 2, **INT8),
]


def golden(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, s: torch.Tensor, routed: dict[str, torch.Tensor]) -> Any:
    return torch_npu.npu_grouped_matmul_finalize_routing(x, w, g, scale=s, **routed, output_bs=3)


GOLDEN: dict[str, Case] = {OP: (golden, (X, W, G, INT8["scale"], ROUTED))}


def expected(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, **options: Any) -> Any:
    tokens, shared, scale = options.get("output_bs", 0) or len(x), options.get("shared_input"), options["scale"]
    y, start = np.zeros((tokens, scale.size(-1)), np.float32), 0
    if shared is not None:
        first = options.get("shared_input_offset", 0)
        y[first : first + len(shared)] = numbers(shared) * np.float32(options.get("shared_input_weight", 1.0))
    for expert, size in sizes_of(g, options.get("group_list_type", 1)):
        right = (int4_elements(w[expert]) if w.dtype == torch.int32 else w[expert].numpy()).astype(np.int64)
        for r in range(start, start + size):
            row = x[r : r + 1].numpy().astype(np.int64)
            share = options["logit"].numpy()[r]
            share = share if options["pertoken_scale"] is None else options["pertoken_scale"].numpy()[r] * share
            if w.dtype == torch.int32:
                high, low = (in_halves(half, right, scale[expert].numpy()) for half in (row // 16, row % 16 - 8))
                v = low + high * np.float32(16) + options["bias"][expert].numpy()
                if options.get("offset") is not None:
                    v = np.float32(row.sum()) * options["offset"][expert].numpy().reshape(-1) + v
            else:
                v = (row @ right).astype(np.float32) * scale[expert].numpy()
            y[int(options["row_index"][r])] += (v * share)[0]
        start += size
    return y


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    rows, experts, int4 = data.one_of(1, 5, 9), data.one_of(1, 3), data.one_of(True, False, False)
    k, n, tokens = (192, 72, data.one_of(1, rows)) if int4 else (data.one_of(16, 48), 256, data.one_of(1, rows))
    kind = data.one_of(0, 1)
    options = {name: data.floats(torch.float32, rows) for name in ("pertoken_scale", "logit")}
    options["row_index"] = torch.from_numpy(data.random.integers(0, tokens, rows))
    options |= {"output_bs": tokens, "group_list_type": kind}
    if data.one_of(True, False):
        options |= {
            "shared_input": data.floats(torch.bfloat16, 1, n),
            "shared_input_offset": tokens - 1,
            "shared_input_weight": 0.7,
        }
    if int4:
        options |= {"scale": data.params(experts, 1, n), "bias": data.floats(torch.float32, experts, n)}
        options["offset"] = data.one_of(None, data.floats(torch.float32, experts, 1, n))
    else:
        options["scale"] = data.floats(torch.float32, experts, n)
        options["pertoken_scale"] = data.one_of(None, options["pertoken_scale"])
    weight = data.int32(experts, k, n // 8) if int4 else data.int8(experts, k, n)
    return (data.int8(rows, k), weight, data.groups(experts, rows, kind)), options


STATEMENTS = {f"npu_{OP}": Statement(expected, calls())}
