"""Wrong calls of npu_mm_all_reduce_base; allowed ones need ranks and are in `ranks/products.py`."""

import torch

from support.call_table import bad
from support.tensors import bf16, f16, f32, i8, i32

OP, GROUP = "mm_all_reduce_base", "a group"
X1, X2 = f16(4, 64), f16(64, 16)
Q1, Q2 = i8(4, 64), i8(64, 16)
PACKED = torch.ones(16, dtype=torch.int64)
INT8, SCALE = (Q1, Q2), {"dequant_scale": PACKED}
WRONG = [
    bad(OP, "x1", "x1 float32", f32(4, 64), X2, GROUP),
    bad(OP, "x1", "x1 of one dimension", f16(64), X2, GROUP),
    bad(OP, "x1", "x1 a transposed view", f16(64, 4).t(), X2, GROUP),
    bad(OP, "x1.size(0)", "no rows", f16(0, 64), X2, GROUP),
    bad(OP, "x2", "x2 of three dimensions", X1, f16(1, 64, 16), GROUP),
    bad(OP, "x2.size(0)", "another depth", X1, f16(32, 16), GROUP),
    bad(OP, "x2", "x2 of another dtype", X1, bf16(64, 16), GROUP),
    bad(OP, "x2", "x2 int32 that holds int4", X1, i32(64, 2), GROUP, antiquant_scale=f16(16)),
    bad(OP, "reduce_op", "a product of ranks", X1, X2, GROUP, reduce_op="prod"),
    bad(OP, "comm_turn", "turns", X1, X2, GROUP, comm_turn=1),
    bad(OP, "comm_mode", "aiv", X1, X2, GROUP, comm_mode="aiv"),
    bad(OP, "group_sizes", "groups of Ascend 950", X1, X2, GROUP, group_sizes=[1, 1, 32]),
    bad(OP, "y_dtype", "a dtype of Ascend 950", X1, X2, GROUP, y_dtype=5),
    bad(OP, "comm_quant_mode", "a mode of Ascend 950", X1, X2, GROUP, comm_quant_mode=1),
    bad(OP, "bias", "bias int32", X1, X2, GROUP, bias=i32(16)),
    bad(OP, "bias", "bias of two dimensions", X1, X2, GROUP, bias=f16(1, 16)),
    bad(OP, "bias.size(0)", "bias short", X1, X2, GROUP, bias=f16(8)),
    bad(OP, "x3", "x3 of another dtype", X1, X2, GROUP, x3=bf16(4, 16)),
    bad(OP, "x3", "x3 of three dimensions", X1, X2, GROUP, x3=f16(1, 4, 16)),
    bad(OP, "x3.size(1)", "x3 short", X1, X2, GROUP, x3=f16(4, 8)),
    bad(OP, "dequant_scale", "dequant_scale for float16", X1, X2, GROUP, dequant_scale=PACKED),
    bad(OP, "pertoken_scale", "pertoken_scale for float16", X1, X2, GROUP, pertoken_scale=f32(4)),
    bad(OP, "antiquant_scale", "antiquant_scale for float16", X1, X2, GROUP, antiquant_scale=f16(16)),
    bad(OP, "antiquant_offset", "antiquant_offset for float16", X1, X2, GROUP, antiquant_offset=f16(16)),
    bad(OP, "antiquant_scale", "no antiquant_scale", X1, Q2, GROUP),
    bad(OP, "antiquant_scale", "antiquant_scale of another dtype", X1, Q2, GROUP, antiquant_scale=bf16(16)),
    bad(OP, "antiquant_scale.size(-1)", "antiquant_scale short", X1, Q2, GROUP, antiquant_scale=f16(8)),
    bad(OP, "antiquant_scale.size(0)", "two rows", X1, Q2, GROUP, antiquant_scale=f16(2, 16)),
    bad(OP, "antiquant_group_size", "16", X1, Q2, GROUP, antiquant_scale=f16(4, 16), antiquant_group_size=16),
    bad(OP, "antiquant_group_size", "all of k", X1, Q2, GROUP, antiquant_scale=f16(1, 16), antiquant_group_size=64),
    bad(OP, "antiquant_scale", "a row for groups", X1, Q2, GROUP, antiquant_scale=f16(16), antiquant_group_size=32),
    bad(OP, "antiquant_scale.size(0)", "groups", X1, Q2, GROUP, antiquant_scale=f16(3, 16), antiquant_group_size=32),
    bad(OP, "antiquant_scale.size(1)", "columns", X1, Q2, GROUP, antiquant_scale=f16(2, 8), antiquant_group_size=32),
    bad(OP, "antiquant_offset", "offset dtype", X1, Q2, GROUP, antiquant_scale=f16(16), antiquant_offset=bf16(16)),
    bad(
        OP, "antiquant_offset", "offset dimensions", X1, Q2, GROUP, antiquant_scale=f16(16), antiquant_offset=f16(1, 16)
    ),
    bad(
        OP, "antiquant_offset.size(0)", "offset short", X1, Q2, GROUP, antiquant_scale=f16(16), antiquant_offset=f16(1)
    ),
    bad(OP, "dequant_scale", "no dequant_scale", Q1, Q2, GROUP),
    bad(OP, "x2", "x2 float16 for int8 x1", Q1, X2, GROUP, dequant_scale=PACKED),
    bad(OP, "x1.size(-1)", "too deep", i8(1, 65536), i8(65536, 1), GROUP, dequant_scale=PACKED[:1]),
    bad(OP, "x2.size(0)", "too deep for weights", f16(1, 65536), i8(65536, 1), GROUP, antiquant_scale=f16(1)),
    bad(OP, "dequant_scale", "dequant_scale float32", Q1, Q2, GROUP, dequant_scale=f32(16)),
    bad(OP, "dequant_scale", "packed, for tokens", Q1, Q2, GROUP, dequant_scale=PACKED, pertoken_scale=f32(4)),
    bad(OP, "dequant_scale.size(-1)", "dequant_scale short", Q1, Q2, GROUP, dequant_scale=PACKED[:8]),
    bad(OP, "pertoken_scale", "tokens bfloat16", Q1, Q2, GROUP, dequant_scale=f32(16), pertoken_scale=bf16(4)),
    bad(OP, "pertoken_scale", "tokens of two", Q1, Q2, GROUP, dequant_scale=f32(16), pertoken_scale=f32(4, 1)),
    bad(OP, "pertoken_scale.size(0)", "tokens", Q1, Q2, GROUP, dequant_scale=f32(16), pertoken_scale=f32(3)),
    bad(OP, "antiquant_scale", "for int8 x1", Q1, Q2, GROUP, dequant_scale=PACKED, antiquant_scale=f16(16)),
    *[
        bad(OP, argument, label, *operands, GROUP, comm_quant_scale_1=first, comm_quant_scale_2=second, **scale)
        for argument, label, operands, scale, first, second in (
            ("comm_quant_scale_1", "int8 between ranks of floats", (X1, X2), {}, f16(16), f16(16)),
            ("comm_quant_scale_1", "the second alone", INT8, SCALE, None, f16(16)),
            ("comm_quant_scale_2", "the first alone", INT8, SCALE, f16(16), None),
            ("comm_quant_scale_1", "another dtype than the result", INT8, SCALE, bf16(16), bf16(16)),
            ("comm_quant_scale_1", "three dimensions", INT8, SCALE, f16(1, 1, 16), f16(1, 1, 16)),
            ("comm_quant_scale_1.size(0)", "two rows", INT8, SCALE, f16(2, 16), f16(2, 16)),
            ("comm_quant_scale_1.size(-1)", "one for all", INT8, SCALE, f16(1), f16(1)),
            ("comm_quant_scale_2", "another shape than the first", INT8, SCALE, f16(16), f16(1, 16)),
        )
    ],
]
