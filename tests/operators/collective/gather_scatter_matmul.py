"""Wrong calls of matmuls with all-gather or reduce-scatter; allowed ones are in `ranks/products.py`."""

from typing import Any

import torch

from support.call_table import Call, bad
from support.tensors import bf16, f16, f32, i8, i32

GROUP = "a group"
X1, X2 = f16(4, 256), f16(256, 16)
Q1, Q2 = i8(4, 256), i8(256, 16)
PACKED = torch.ones(1, 16, dtype=torch.int64)
AIV: dict[str, Any] = {"comm_mode": "aiv", "x2_scale": f32(1, 16)}


def _wrong_of_all(op: str, output: str, **options: Any) -> list[Call]:
    """Wrong calls of all four; `output` is the name of the argument for the dtype of the product."""

    def wrong(argument: str, label: str, x1: torch.Tensor, x2: torch.Tensor, ranks: int = 2, **changed: Any) -> Call:
        return bad(op, argument, label, x1, x2, GROUP, ranks, **{**options, **changed})

    dtypes = {output: torch.float16} if options else {}

    def scaled(argument: str, label: str, **changed: Any) -> Call:
        return wrong(argument, label, Q1, Q2, **{**AIV, **dtypes, **changed})

    return [
        wrong("input", "input float32", f32(4, 256), f32(256, 16)),
        wrong("input", "input of three dimensions", f16(1, 4, 256), X2),
        wrong("input", "input a transposed view", f16(256, 4).t(), X2),
        wrong("input.size(0)", "no rows", f16(0, 256), X2),
        wrong("input.size(1)", "too little depth", f16(4, 128), f16(128, 16)),
        wrong("input.size(1)", "too much depth", f16(4, 65535), f16(65535, 1)),
        wrong("x2", "x2 of one dimension", X1, f16(256)),
        wrong("x2", "x2 of another dtype", X1, bf16(256, 16)),
        wrong("x2.size(0)", "another depth", X1, f16(128, 16)),
        wrong("world_size", "one rank", X1, X2, 1),
        wrong("world_size", "three ranks", X1, X2, 3),
        wrong("comm_turn", "turns", X1, X2, comm_turn=1),
        wrong("comm_mode", "another mode", X1, X2, comm_mode="ccu"),
        wrong("x1_scale", "x1_scale for float16", X1, X2, x1_scale=f32(4, 1)),
        wrong("x2_scale", "x2_scale for float16", X1, X2, x2_scale=f32(1, 16)),
        wrong(output, "bfloat16 of float16", X1, X2, **{output: torch.bfloat16}),
        scaled("x2_scale", "int8 without a scale", x2_scale=None),
        scaled("x2_scale", "x2_scale float16", x2_scale=f16(1, 16)),
        scaled("x2_scale", "x2_scale of one dimension", x2_scale=f32(16)),
        scaled("x2_scale.size(0)", "two rows of scales", x2_scale=f32(2, 16)),
        scaled("x2_scale.size(1)", "x2_scale short", x2_scale=f32(1, 8)),
        scaled("x1_scale", "x1_scale bfloat16", x1_scale=bf16(4, 1)),
        scaled("x1_scale", "x1_scale of one dimension", x1_scale=f32(4)),
        scaled("x1_scale.size(0)", "a token too few", x1_scale=f32(3, 1)),
        scaled("x1_scale.size(1)", "two scales a token", x1_scale=f32(4, 2)),
        scaled("x1_scale", "tokens and packed", x1_scale=f32(4, 1), x2_scale=PACKED),
        scaled(output, "float32 output", **{output: torch.float32}),
        scaled(output, "bfloat16 of packed", x2_scale=PACKED, **{output: torch.bfloat16}),
    ]


def _wrong_of_base(op: str) -> list[Call]:
    return [
        *_wrong_of_all(op, "output_dtype"),
        bad(op, "bias", "bias float32", X1, X2, GROUP, 2, bias=f32(16)),
        bad(op, "bias.size(0)", "bias short", X1, X2, GROUP, 2, bias=f16(8)),
        bad(op, "bias", "bias for int8", Q1, Q2, GROUP, 2, bias=i32(16), **AIV),
        bad(op, "comm_mode", "int8 without aiv", Q1, Q2, GROUP, 2, x2_scale=f32(1, 16)),
    ]


def _wrong_of_quantised(op: str) -> list[Call]:
    mode: dict[str, Any] = {"comm_mode": "aiv"}
    return [
        *_wrong_of_all(op, "y_dtype", **mode),
        bad(op, "world_size", "sixteen ranks", f16(16, 256), X2, GROUP, 16, **mode),
        bad(op, "y_dtype", "int8 of an unknown dtype", Q1, Q2, GROUP, 2, **AIV),
        bad(op, "quant_scale", "quantised", X1, X2, GROUP, 2, quant_scale=f32(1), **mode),
        bad(op, "block_size", "blocks", X1, X2, GROUP, 2, block_size=1, **mode),
        bad(op, "group_sizes", "groups of Ascend 950", X1, X2, GROUP, 2, group_sizes=[128, 128, 128], **mode),
        bad(op, "amax_output", "the largest", X1, X2, GROUP, 2, amax_output=True, **mode),
        *(
            bad(op, dtype, f"{dtype} set", X1, X2, GROUP, 2, **{dtype: 1}, **mode)
            for dtype in ("x1_dtype", "x2_dtype", "x1_scale_dtype", "x2_scale_dtype")
        ),
    ]


WRONG = [
    *_wrong_of_base("all_gather_base_mm"),
    bad("all_gather_base_mm", "gather_index", "x2 gathered", X1, X2, GROUP, 2, gather_index=1),
    bad(
        "all_gather_base_mm",
        "gather_output",
        "aiv, not gathered",
        X1,
        X2,
        GROUP,
        2,
        gather_output=False,
        comm_mode="aiv",
    ),
    *_wrong_of_base("mm_reduce_scatter_base"),
    bad("mm_reduce_scatter_base", "reduce_op", "the largest", X1, X2, GROUP, 2, reduce_op="max"),
    bad("mm_reduce_scatter_base", "input.size(0)", "three rows for two ranks", f16(3, 256), X2, GROUP, 2),
    *_wrong_of_quantised("all_gather_quant_mm"),
    bad("all_gather_quant_mm", "gather_index", "x2 gathered", X1, X2, GROUP, 2, gather_index=1, comm_mode="aiv"),
    bad("all_gather_quant_mm", "gather_output", "lost", X1, X2, GROUP, 2, gather_output=False, comm_mode="aiv"),
    bad("all_gather_quant_mm", "bias", "a bias", X1, X2, GROUP, 2, bias=f16(16), comm_mode="aiv"),
    bad("all_gather_quant_mm", "comm_mode", "as the default", X1, X2, GROUP, 2),
    *_wrong_of_quantised("quant_mm_reduce_scatter"),
    bad("quant_mm_reduce_scatter", "reduce_op", "the largest", X1, X2, GROUP, 2, reduce_op="max"),
    bad("quant_mm_reduce_scatter", "input.size(0)", "three rows for two ranks", f16(3, 256), X2, GROUP, 2),
    bad("quant_mm_reduce_scatter", "bias", "bias of another dtype", X1, X2, GROUP, 2, bias=bf16(16)),
    bad("quant_mm_reduce_scatter", "bias", "integers", Q1, Q2, GROUP, 2, bias=i32(16), y_dtype=torch.float16, **AIV),
    bad("quant_mm_reduce_scatter", "bias.size(0)", "bias short", X1, X2, GROUP, 2, bias=f16(8)),
]
