"""Calls of npu_quant_matmul."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import NEAR, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, bad, good, packed
from support.tensors import bf16, f16, f32, i8, i32, nz, small32, stored

BF16, INT32 = {"output_dtype": torch.bfloat16}, {"output_dtype": torch.int32}
HALF = {"output_dtype": torch.float16}
A, B = i8(4, 32), i8(32, 16)
GOOD = [
    good("quant_matmul", "int8 packed", i8(4, 32), i8(32, 16), packed(16)),
    good("quant_matmul", "int8 packed one", i8(4, 32), i8(32, 16), packed(1), bias=small32(16)),
    good("quant_matmul", "int8 float scale", i8(4, 32), i8(32, 16), f32(1), offset=f32(16)),
    good("quant_matmul", "int8 batch", i8(3, 1, 32), i8(3, 32, 16), f32(16), bias=small32(3, 1, 16)),
    good("quant_matmul", "int8 broadcast", i8(2, 1, 4, 32), i8(3, 32, 16), packed(16), output_dtype=torch.int8),
    good("quant_matmul", "groups of nothing", i8(4, 32), i8(32, 16), packed(16), group_sizes=[0, 0, 0]),
    good("quant_matmul", "float16", i8(4, 32), i8(32, 16), packed(16), output_dtype=torch.float16),
    good("quant_matmul", "float16 float scale", i8(4, 32), i8(32, 16), f32(16), output_dtype=torch.float16),
    good("quant_matmul", "float16 int4", i32(4, 2), i32(16, 3), f32(24), output_dtype=torch.float16),
    good("quant_matmul", "int4 view", i32(4, 2), i32(24, 2).t(), packed(24), output_dtype=torch.float16),
    good(
        "quant_matmul",
        "float16 tokens",
        i8(4, 32),
        i8(32, 16),
        f32(16),
        pertoken_scale=f32(4),
        bias=f16(16),
        output_dtype=torch.float16,
    ),
    good("quant_matmul", "bfloat16", i8(4, 32), i8(32, 16), bf16(1), bias=bf16(16), output_dtype=torch.bfloat16),
    good(
        "quant_matmul",
        "bfloat16 tokens",
        i8(2, 4, 32),
        i8(16, 32).t(),
        f32(16),
        pertoken_scale=f32(4),
        bias=f32(16),
        output_dtype=torch.bfloat16,
    ),
    good("quant_matmul", "a wide view", i8(1, 2), i8(65536, 2).t(), packed(1)),
    good("quant_matmul", "int32", i8(4, 32), i8(32, 16), f32(16), bias=small32(16), output_dtype=torch.int32),
    good("quant_matmul", "FRACTAL_NZ", i8(4, 32), nz(i8(32, 16)), packed(16)),
    good("quant_matmul", "int4 in FRACTAL_NZ", i32(4, 2), nz(i32(16, 3)), f32(24), output_dtype=torch.float16),
]
WRONG = [
    bad("quant_matmul", "x1", "x1 of one dimension", i8(32), B, packed(16)),
    bad("quant_matmul", "x2", "x2 of seven dimensions", A, i8(1, 1, 1, 1, 1, 32, 16), packed(16)),
    bad("quant_matmul", "x2", "int4 x2 of three dimensions", i32(4, 2), i32(1, 16, 3), f32(24), **HALF),
    bad("quant_matmul", "x1.size(-1)", "too deep", i8(1, 65536), i8(65536, 1), packed(1)),
    bad("quant_matmul", "x2.size(-1)", "too wide", i8(1, 1), i8(1, 65536), packed(1)),
    bad("quant_matmul", "x1.size(-2)", "too many rows of a transposed view", i8(2, 65536).t(), i8(2, 1), packed(1)),
    bad("quant_matmul", "x1.size(-1)", "int4 too deep", i32(1, 8192), i32(65536, 1), f32(8), **HALF),
    bad("quant_matmul", "x2.size(-2)", "other depth", A, i8(16, 16), packed(16)),
    bad("quant_matmul", "x1", "int4 x1 transposed", i32(2, 4).t(), i32(16, 3), f32(24), **HALF),
    bad("quant_matmul", "x2.size(-2)", "int4 along k, not a view", i32(4, 2), i32(2, 24), f32(24), **HALF),
    bad("quant_matmul", "x2.size(-2)", "int4 view, not along k", i32(4, 2), i32(3, 16).t(), f32(24), **HALF),
    bad("quant_matmul", "x2.size(-2)", "int4 other depth", i32(4, 2), i32(15, 3), f32(24), **HALF),
    bad("quant_matmul", "x1 and x2", "batches apart", i8(2, 4, 32), i8(3, 32, 16), packed(16)),
    bad("quant_matmul", "bias", "bias of two dimensions", A, B, packed(16), bias=small32(1, 16)),
    bad("quant_matmul", "bias", "3-D bias for a 2-D result", A, B, packed(16), bias=small32(1, 1, 16)),
    bad("quant_matmul", "bias.size(-1)", "bias too short", A, B, packed(16), bias=small32(8)),
    bad("quant_matmul", "bias.size(0)", "bias of other batch", i8(3, 4, 32), B, packed(16), bias=small32(2, 1, 16)),
    bad("quant_matmul", "bias.size(1)", "bias of rows", i8(3, 4, 32), B, packed(16), bias=small32(3, 4, 16)),
    bad("quant_matmul", "bias", "bias int8", A, B, packed(16), bias=i8(16)),
    bad("quant_matmul", "bias", "float32 bias with int8", A, B, packed(16), bias=f32(16)),
    bad("quant_matmul", "bias", "float16 bias without tokens", A, B, packed(16), bias=f16(16), **HALF),
    bad("quant_matmul", "bias", "float bias with int32", A, B, f32(16), bias=f32(16), **INT32),
    bad("quant_matmul", "bias", "int4 3-D bias", i32(2, 4, 2), i32(16, 3), f32(24), bias=small32(2, 1, 24), **HALF),
    bad("quant_matmul", "scale", "float scale of two dimensions", A, B, f32(1, 16)),
    bad("quant_matmul", "scale", "a row of packed scales", A, B, packed(16, rows=1)),
    bad("quant_matmul", "x1.size(0)", "no batch", i8(0, 4, 32), i8(1, 32, 16), packed(16)),
    bad("quant_matmul", "x1.size(0)", "no row", i8(0, 32), B, packed(16)),
    bad("quant_matmul", "x2.size(0)", "no weight", i8(1, 4, 32), i8(0, 32, 16), packed(16)),
    bad("quant_matmul", "scale.size(0)", "scale too short", A, B, packed(8)),
    bad("quant_matmul", "scale", "float16 scale", A, B, f16(16), **HALF),
    bad("quant_matmul", "scale", "bfloat16 scale with int8", A, B, bf16(16)),
    bad("quant_matmul", "scale", "packed scale with bfloat16", A, B, packed(16), **BF16),
    bad("quant_matmul", "scale", "packed scale with int32", A, B, packed(16), **INT32),
    bad("quant_matmul", "scale", "packed scale with tokens", A, B, packed(16), pertoken_scale=f32(4), **HALF),
    bad("quant_matmul", "offset", "offset of two dimensions", A, B, packed(16), offset=f32(1, 16)),
    bad("quant_matmul", "offset", "offset float16", A, B, packed(16), offset=f16(16)),
    bad("quant_matmul", "offset.size(0)", "offset too short", A, B, packed(16), offset=f32(8)),
    bad("quant_matmul", "offset", "offset with float16", A, B, packed(16), offset=f32(16), **HALF),
    bad("quant_matmul", "pertoken_scale", "tokens float16", A, B, f32(16), pertoken_scale=f16(4), **HALF),
    bad("quant_matmul", "pertoken_scale", "tokens of two dimensions", A, B, f32(16), pertoken_scale=f32(4, 1), **HALF),
    bad("quant_matmul", "pertoken_scale.size(0)", "a token too few", A, B, f32(16), pertoken_scale=f32(3), **HALF),
    bad("quant_matmul", "output_dtype", "tokens with int8", A, B, f32(16), pertoken_scale=f32(4)),
    bad("quant_matmul", "got 293", "scale_dtype of Ascend 950", A, B, f32(16), scale_dtype=293),
    bad("quant_matmul", "output_dtype", "float32", A, B, f32(16), output_dtype=torch.float32),
    bad("quant_matmul", "output_dtype", "int4 with int8", i32(4, 2), i32(16, 3), f32(24)),
    bad("quant_matmul", "x1", "x1 float16", f16(4, 32), B, packed(16)),
    bad("quant_matmul", "x2", "x2 float16", A, f16(32, 16), packed(16)),
    bad("quant_matmul", "x2", "x2 of another dtype", i32(4, 2), i8(16, 24), f32(24), **HALF),
    bad("quant_matmul", "group_sizes", "group_sizes", A, B, packed(16), group_sizes=[1, 128, 128]),
    bad("quant_matmul", "y_scale", "y_scale", A, B, packed(16), y_scale=packed(16)),
]
WRONG_FORMATS = [
    bad("quant_matmul", "x1", "x1 in FRACTAL_NZ", nz(A), B, packed(16)),
    bad("quant_matmul", "x2", "x2 in NC1HWC0", A, stored(B, 3), packed(16)),
    bad("quant_matmul", "k must not be 1", "FRACTAL_NZ of one row", i8(4, 1), nz(i8(1, 16)), packed(16)),
    bad("quant_matmul", "n must not be 1", "FRACTAL_NZ of one column", A, nz(i8(32, 1)), packed(1)),
    bad("quant_matmul", "x2", "int4 in FRACTAL_NZ, packed scale", i32(4, 2), nz(i32(16, 3)), packed(24), **HALF),
    bad(
        "quant_matmul",
        "x2",
        "int4 in FRACTAL_NZ with tokens",
        i32(4, 2),
        nz(i32(16, 3)),
        f32(24),
        pertoken_scale=f32(4),
        **HALF,
    ),
]


def golden(*args: torch.Tensor, **options: Any) -> Case:
    return lambda x1, x2, scale: torch_npu.npu_quant_matmul(x1, x2, scale, **options), args


GOLDEN: dict[str, Case] = {
    "quant_matmul-int8": golden(A, B, f32(16)),
    "quant_matmul-float16": golden(A, B, packed(16), output_dtype=torch.float16),
    "quant_matmul-bfloat16": golden(A, B, f32(16), output_dtype=torch.bfloat16),
    "quant_matmul-int32": golden(A, B, f32(16), output_dtype=torch.int32),
    "quant_matmul-int4": golden(i32(4, 2), i32(16, 3), packed(24), output_dtype=torch.float16),
    "quant_matmul-int4-view": (
        lambda x1, x2, scale: torch_npu.npu_quant_matmul(x1, x2.t(), scale, output_dtype=torch.float16),
        (i32(4, 2), i32(24, 2), packed(24)),
    ),
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    output = draw(st.sampled_from([None, torch.int8, torch.float16, torch.bfloat16, torch.int32]))
    m, k, n = draw(SIZES), draw(st.sampled_from([1, 8, 16])), draw(st.sampled_from([1, 8, 16]))
    int4 = draw(NEAR) < 3
    left = tuple(draw(st.lists(st.sampled_from([0, 1, 2]), max_size=2)))
    right = () if int4 else tuple(draw(st.lists(st.sampled_from([1, 2]), max_size=2)))
    kind = torch.int32 if int4 else torch.int8
    x1 = tensor(draw, (*left, m, k), kind)
    x2 = tensor(draw, (*right, k * 8 if int4 and draw(st.booleans()) else k, n), kind)
    columns = x2.size(-1) * 8 if int4 and x2.dim() > 1 and x1.dim() and x2.size(-2) != x1.size(-1) else n
    floating = output is torch.bfloat16 or output is torch.int32
    scale = tensor(draw, (columns,), torch.float32, *((torch.bfloat16,) if floating else ()))
    if not floating and draw(st.booleans()):
        scale = packed(mostly(draw, columns, SIZES))
    options = {
        "output_dtype": output,
        "offset": optional(draw, (columns,), torch.float32) if output in (None, torch.int8) else None,
        "pertoken_scale": optional(draw, (m,), torch.float32) if draw(NEAR) < 4 else None,
        "bias": optional(draw, (columns,), torch.int32, torch.float32) if draw(NEAR) < 5 else None,
    }
    return (x1, x2, scale), options


CALLS = {"npu_quant_matmul": calls()}
