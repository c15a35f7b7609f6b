"""Wrong calls of npu_all_gather_base_mm and npu_mm_reduce_scatter_base; right ones stand in `ranks/products.py`."""

from typing import Any

import torch

from support.call import Call, bad
from support.tensors import bf16, f16, f32, i8, i32

GROUP = "a group"
X1, X2 = f16(4, 256), f16(256, 16)
Q1, Q2 = i8(4, 256), i8(256, 16)
PACKED = torch.ones(1, 16, dtype=torch.int64)
AIV: dict[str, Any] = {"comm_mode": "aiv", "x2_scale": f32(1, 16)}


def _of_both(op: str) -> list[Call]:
    return [
        bad(op, "input", "input float32", f32(4, 256), f32(256, 16), GROUP, 2),
        bad(op, "input", "input of three dimensions", f16(1, 4, 256), X2, GROUP, 2),
        bad(op, "input", "input a transposed view", f16(256, 4).t(), X2, GROUP, 2),
        bad(op, "input.size(0)", "no rows", f16(0, 256), X2, GROUP, 2),
        bad(op, "input.size(1)", "too little depth", f16(4, 128), f16(128, 16), GROUP, 2),
        bad(op, "input.size(1)", "too much depth", f16(4, 65535), f16(65535, 1), GROUP, 2),
        bad(op, "x2", "x2 of one dimension", X1, f16(256), GROUP, 2),
        bad(op, "x2", "x2 of another dtype", X1, bf16(256, 16), GROUP, 2),
        bad(op, "x2.size(0)", "another depth", X1, f16(128, 16), GROUP, 2),
        bad(op, "world_size", "one rank", X1, X2, GROUP, 1),
        bad(op, "world_size", "three ranks", X1, X2, GROUP, 3),
        bad(op, "comm_turn", "turns", X1, X2, GROUP, 2, comm_turn=1),
        bad(op, "comm_mode", "another mode", X1, X2, GROUP, 2, comm_mode="ccu"),
        bad(op, "bias", "bias float32", X1, X2, GROUP, 2, bias=f32(16)),
        bad(op, "bias.size(0)", "bias short", X1, X2, GROUP, 2, bias=f16(8)),
        bad(op, "x1_scale", "x1_scale for float16", X1, X2, GROUP, 2, x1_scale=f32(4, 1)),
        bad(op, "x2_scale", "x2_scale for float16", X1, X2, GROUP, 2, x2_scale=f32(1, 16)),
        bad(op, "output_dtype", "output_dtype for float16", X1, X2, GROUP, 2, output_dtype=torch.float16),
        bad(op, "comm_mode", "int8 without aiv", Q1, Q2, GROUP, 2, x2_scale=f32(1, 16)),
        bad(op, "x2_scale", "int8 without a scale", Q1, Q2, GROUP, 2, comm_mode="aiv"),
        bad(op, "bias", "bias for int8", Q1, Q2, GROUP, 2, bias=i32(16), **AIV),
        bad(op, "x2_scale", "x2_scale float16", Q1, Q2, GROUP, 2, comm_mode="aiv", x2_scale=f16(1, 16)),
        bad(op, "x2_scale", "x2_scale of one dimension", Q1, Q2, GROUP, 2, comm_mode="aiv", x2_scale=f32(16)),
        bad(op, "x2_scale.size(0)", "two rows of scales", Q1, Q2, GROUP, 2, comm_mode="aiv", x2_scale=f32(2, 16)),
        bad(op, "x2_scale.size(1)", "x2_scale short", Q1, Q2, GROUP, 2, comm_mode="aiv", x2_scale=f32(1, 8)),
        bad(op, "x1_scale", "x1_scale bfloat16", Q1, Q2, GROUP, 2, x1_scale=bf16(4, 1), **AIV),
        bad(op, "x1_scale", "x1_scale of one dimension", Q1, Q2, GROUP, 2, x1_scale=f32(4), **AIV),
        bad(op, "x1_scale.size(0)", "a token too few", Q1, Q2, GROUP, 2, x1_scale=f32(3, 1), **AIV),
        bad(op, "x1_scale.size(1)", "two scales a token", Q1, Q2, GROUP, 2, x1_scale=f32(4, 2), **AIV),
        bad(
            op, "x1_scale", "tokens and packed", Q1, Q2, GROUP, 2, x1_scale=f32(4, 1), comm_mode="aiv", x2_scale=PACKED
        ),
        bad(op, "output_dtype", "float32 output", Q1, Q2, GROUP, 2, output_dtype=torch.float32, **AIV),
        bad(
            op,
            "output_dtype",
            "bfloat16 of packed",
            Q1,
            Q2,
            GROUP,
            2,
            comm_mode="aiv",
            x2_scale=PACKED,
            output_dtype=torch.bfloat16,
        ),
    ]


WRONG = [
    *_of_both("all_gather_base_mm"),
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
    *_of_both("mm_reduce_scatter_base"),
    bad("mm_reduce_scatter_base", "reduce_op", "the largest", X1, X2, GROUP, 2, reduce_op="max"),
    bad("mm_reduce_scatter_base", "input.size(0)", "three rows for two ranks", f16(3, 256), X2, GROUP, 2),
]
