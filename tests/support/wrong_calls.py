"""One wrong call for every rule of the constraint table, with the argument that its refusal has to name."""

import torch

from support.calls import GROUPS, INT4, PERCHANNEL, PERTENSOR, bad, packed
from support.tensors import bf16, ends, f16, f32, f64, i8, i32, small32

F16 = torch.float16
GROUP_QUANT = [
    bad("group_quant", "x", "x of three dimensions", f16(1, 6, 16), f32(4, 16), GROUPS),
    bad("group_quant", "x", "x float64", f64(6, 16), f32(4, 16), GROUPS),
    bad("group_quant", "scale", "scale of one dimension", f16(6, 16), f32(16), GROUPS),
    bad("group_quant", "scale", "scale int32", f16(6, 16), i32(4, 16), GROUPS),
    bad("group_quant", "scale.size(0)", "no groups", f16(0, 16), f32(0, 16), ends()),
    bad("group_quant", "scale.size(1)", "scale too narrow", f16(6, 16), f32(4, 8), GROUPS),
    bad("group_quant", "group_index", "group_index of two dimensions", f16(6, 16), f32(4, 16), GROUPS[None]),
    bad("group_quant", "group_index", "group_index float32", f16(6, 16), f32(4, 16), GROUPS.float()),
    bad("group_quant", "group_index.size(0)", "an end too few", f16(6, 16), f32(4, 16), ends(1, 4, 6)),
    bad("group_quant", "offset", "two offsets", f16(6, 16), f32(4, 16), GROUPS, offset=f32(2)),
    bad("group_quant", "offset", "offset of another dtype", f16(6, 16), f32(4, 16), GROUPS, offset=f16(1)),
    bad("group_quant", "dst_dtype", "quint8", f16(6, 16), f32(4, 16), GROUPS, dst_dtype=torch.quint8),
    bad("group_quant", "dst_dtype", "int32", f16(6, 16), f32(4, 16), GROUPS, dst_dtype=torch.int32),
    bad("group_quant", "x.size(1)", "width not of eights", f16(6, 12), f32(4, 12), GROUPS, dst_dtype=INT4),
]
GROUP_INDEX_VALUES = [
    bad("group_quant", "group_index[0]", "negative", f16(6, 16), f32(2, 16), ends(-1, 6)),
    bad("group_quant", "group_index[1]", "above the rows", f16(6, 16), f32(2, 16), ends(1, 7)),
    bad("group_quant", "group_index[1]", "decreasing", f16(6, 16), f32(3, 16), ends(4, 2, 6)),
    bad("group_quant", "group_index", "last not the rows", f16(6, 16), f32(2, 16), ends(1, 5)),
    *(
        bad(op, argument, label, f16(6, 16), smooth_scales=f16(2, 16), group_index=ends(*values))
        for op in ("dynamic_quant_asymmetric", "dynamic_quant")
        for argument, label, values in (
            ("group_index[0]", "below one", (0, 6)),
            ("group_index[1]", "above the rows", (1, 7)),
            ("group_index[1]", "not increasing", (6, 6)),
            ("group_index", "last not the rows", (1, 5)),
        )
    ),
]
QUANTIZE = [
    bad("quantize", "input", "mul input of none", f16(), f16(1), None, torch.qint8, -1, False),
    bad(
        "quantize", "input", "mul nine dimensions", f16(1, 1, 1, 1, 1, 1, 1, 1, 8), f16(8), None, torch.qint8, -1, False
    ),
    bad("quantize", "input", "mul input int8", i8(3, 16), f16(16), None, torch.qint8, -1, False),
    bad("quantize", "scales", "mul scales int32", f16(3, 16), i32(16), None, torch.qint8, -1, False),
    bad("quantize", "scales", "mul scales of another rank", f16(2, 3, 16), f16(3, 16), None, torch.qint8, -1, False),
    bad("quantize", "scales.size", "mul scales too short", f16(3, 16), f16(8), None, torch.qint8, -1, False),
    bad("quantize", "scales.size", "mul scales of the other axis", f16(3, 16), f16(16), None, torch.qint8, -2, False),
    bad("quantize", "scales.size", "mul two long dimensions", f16(3, 16), f16(3, 16), None, torch.qint8, -1, False),
    bad("quantize", "zero_points.size", "mul other length", f16(3, 16), f16(16), f16(1), torch.qint8, -1, False),
    bad("quantize", "zero_points", "mul other dtype", f16(3, 16), f16(16), f32(16), torch.qint8, -1, False),
    bad("quantize", "zero_points", "mul other rank", f16(3, 16), f16(16), f16(1, 16), torch.qint8, -1, False),
    bad("quantize", "axis", "mul axis -3", f16(2, 3, 16), f16(16), None, torch.qint8, -3, False),
    bad("quantize", "axis", "mul axis beyond rank", f16(3, 16), f16(16), None, torch.qint8, 2, False),
    bad("quantize", "axis", "mul axis -2 of a vector", f16(16), f16(16), None, torch.qint8, -2, False),
    bad("quantize", "dtype", "mul quint8", f16(3, 16), f16(16), None, torch.quint8, -1, False),
    bad("quantize", "dtype", "mul int32", f16(3, 16), f16(16), None, torch.int32, -1, False),
    bad("quantize", "input.size(-1)", "mul width not of eights", f16(3, 12), f16(12), None, INT4, -1, False),
    bad("quantize", "scales", "div scales of two dimensions", f16(3, 16), f32(3, 1), None, torch.qint8, 0),
    bad("quantize", "zero_points", "div zero points of two", f16(3, 16), f32(3), small32(3, 1), torch.qint8, 0),
    bad("quantize", "axis", "div axis beyond rank", f16(3, 16), f32(1), None, torch.qint8, 2),
    bad("quantize", "axis", "div axis -3", f16(3, 16), f32(1), None, torch.qint8, -3),
    bad("quantize", "dtype", "div quint4x2", f16(3, 16), f32(16), None, INT4, 1),
    bad("quantize", "dtype", "div float16", f16(3, 16), f32(16), None, torch.float16, 1),
    bad("quantize", "dtype", "div unknown number", f16(3, 16), f32(16), None, 999, 1),
    bad("quantize", "scales.size(0)", "div scales too short", f16(3, 16), f32(8), None, torch.qint8, 1),
    bad("quantize", "zero_points.size(0)", "div too short", f16(3, 16), f32(16), small32(8), torch.qint8, 1),
    bad("quantize", "scales", "div scales float16", f16(3, 16), f16(16), None, torch.qint8, 1),
    bad("quantize", "zero_points", "div zero points float32", f16(3, 16), f32(16), f32(16), torch.qint8, 1),
]
TRANS_QUANT_PARAM = [
    bad("trans_quant_param", "scale", "float16", f16(16)),
    bad("trans_quant_param", "scale", "three dimensions", f32(1, 1, 16)),
    bad("trans_quant_param", "scale", "no dimension", f32()),
    bad("trans_quant_param", "scale.size(0)", "empty", f32(0)),
    bad("trans_quant_param", "scale.size(0)", "(g, n) with an offset", f32(4, 16), f32(4, 16)),
    bad("trans_quant_param", "offset", "offset int32", f32(16), small32(16)),
    bad("trans_quant_param", "offset", "offset of another rank", f32(16), f32(1, 16)),
    bad("trans_quant_param", "offset.size(0)", "empty offset", f32(16), f32(0)),
    bad("trans_quant_param", "offset.size(0)", "other length", f32(16), f32(8)),
    bad("trans_quant_param", "offset.size(1)", "(1, n) with (1, 1)", f32(1, 16), f32(1, 1)),
    bad("trans_quant_param", "round_mode", "round_mode 2", f32(16), None, 2),
]
DYNAMIC = [
    bad(op, argument, label, *args, **kwargs)
    for op in ("dynamic_quant_asymmetric", "dynamic_quant")
    for argument, label, args, kwargs in (
        ("input", "one dimension", (f16(16),), {}),
        ("input", "nine dimensions", (f16(1, 1, 1, 1, 1, 1, 1, 1, 8),), {}),
        ("input", "float32", (f32(6, 16),), {}),
        ("smooth_scales", "smooth float32", (f16(6, 16),), {"smooth_scales": f32(16)}),
        ("smooth_scales", "smooth of two dimensions", (f16(6, 16),), {"smooth_scales": f16(2, 16)}),
        ("smooth_scales.size(0)", "smooth too short", (f16(6, 16),), {"smooth_scales": f16(8)}),
        (
            "smooth_scales.size(0)",
            "perchannel smooth of the width",
            (f16(6, 16),),
            {**PERCHANNEL, "smooth_scales": f16(16)},
        ),
        ("smooth_scales", "groups and one row", (f16(6, 16),), {"smooth_scales": f16(16), "group_index": ends(6)}),
        (
            "smooth_scales.size(1)",
            "groups too narrow",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 8), "group_index": ends(1, 6)},
        ),
        ("smooth_scales.size(0)", "no groups", (f16(0, 16),), {"smooth_scales": f16(0, 16), "group_index": ends()}),
        (
            "smooth_scales.size(0)",
            "1025 groups",
            (f16(1025, 16),),
            {"smooth_scales": f16(1025, 16), "group_index": ends(*range(1, 1026))},
        ),
        ("smooth_scales", "groups without smooth", (f16(6, 16),), {"group_index": ends(6)}),
        (
            "group_index",
            "group_index int64",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 16), "group_index": ends(1, 6, dtype=torch.int64)},
        ),
        (
            "group_index",
            "group_index of two dimensions",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 16), "group_index": ends(1, 6)[None]},
        ),
        (
            "group_index.size(0)",
            "an end too few",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 16), "group_index": ends(6)},
        ),
        (
            "group_index",
            "groups and pertensor",
            (f16(6, 16),),
            {**PERTENSOR, "smooth_scales": f16(2, 16), "group_index": ends(1, 6)},
        ),
        ("quant_mode", "unknown mode", (f16(6, 16),), {"quant_mode": "pergroup"}),
        ("dst_type_max", "negative maximum", (f16(6, 16),), {"dst_type_max": -1.0}),
        ("dst_type", "quint8", (f16(6, 16),), {"dst_type": torch.quint8}),
        ("dst_type", "unknown number", (f16(6, 16),), {"dst_type": 999}),
        ("input.size(-1)", "width not of eights", (f16(6, 12),), {"dst_type": INT4}),
    )
]
BF16, INT32 = {"output_dtype": torch.bfloat16}, {"output_dtype": torch.int32}
HALF = {"output_dtype": F16}
A, B = i8(4, 32), i8(32, 16)
QUANT_MATMUL = [
    bad("quant_matmul", "x1", "x1 of one dimension", i8(32), B, packed(16)),
    bad("quant_matmul", "x2", "x2 of seven dimensions", A, i8(1, 1, 1, 1, 1, 32, 16), packed(16)),
    bad("quant_matmul", "x2", "int4 x2 of three dimensions", i32(4, 2), i32(1, 16, 3), f32(24), **HALF),
    bad("quant_matmul", "x2.size(-2)", "other depth", A, i8(16, 16), packed(16)),
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
    bad("quant_matmul", "scale", "scale of two dimensions", A, B, packed(16)[None]),
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
    bad("quant_matmul", "output_dtype", "float32", A, B, f32(16), output_dtype=torch.float32),
    bad("quant_matmul", "output_dtype", "int4 with int8", i32(4, 2), i32(16, 3), f32(24)),
    bad("quant_matmul", "x1", "x1 float16", f16(4, 32), B, packed(16)),
    bad("quant_matmul", "x2", "x2 of another dtype", A, i32(32, 2), packed(16)),
    bad("quant_matmul", "group_sizes", "group_sizes", A, B, packed(16), group_sizes=[1, 128, 128]),
    bad("quant_matmul", "y_scale", "y_scale", A, B, packed(16), y_scale=packed(16)),
]
WRONG = [*GROUP_QUANT, *QUANTIZE, *TRANS_QUANT_PARAM, *DYNAMIC, *QUANT_MATMUL]
