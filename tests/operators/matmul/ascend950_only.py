"""Calls of operators that other chips than A2 and A3 have kernels for, as their documents make them."""

import torch

from support.call_table import bad
from support.tensors import bf16, ends, f16, f32, i8, u8

WRONG = [
    bad(
        "transpose_quant_batchmatmul",
        "Ascend 950",
        "as the document",
        i8(4, 2, 16),
        i8(2, 16, 8),
        15,
        x1_scale=f32(4),
        x2_scale=f32(8),
        perm_x1=[1, 0, 2],
        perm_x2=[0, 1, 2],
        perm_y=[1, 0, 2],
    ),
    bad("add_quant_matmul_", "Ascend 950", "as the document", f32(4, 8), i8(4, 16), i8(16, 8), f32(8)),
    bad("add_quant_matmul", "Ascend 950", "not in place", f32(4, 8), i8(4, 16), i8(16, 8), f32(8)),
    bad("add_quant_gmm_", "Ascend 950", "as the document", f32(2, 4, 8), u8(16, 4), u8(16, 8), f32(2), ends(8, 16)),
    bad("add_quant_gmm", "Ascend 950", "not in place", f32(2, 4, 8), u8(16, 4), u8(16, 8), f32(2), ends(8, 16)),
    bad("fused_matmul", "Ascend 950", "as the document", f16(4, 16), f16(16, 8), fused_op_type="relu"),
    bad(
        "dual_level_quant_matmul",
        "Ascend 950",
        "as the document",
        u8(4, 256),
        u8(8, 256),
        f32(4, 1),
        f32(1, 8),
        u8(4, 8, 2),
        u8(8, 8, 2),
    ),
    bad("quant_matmul_dequant", "Ascend 310P", "as the document", f16(4, 32), i8(16, 32), f32(16)),
    bad(
        "quant_grouped_matmul_dequant",
        "Ascend 310P",
        "as the document",
        f16(4, 32),
        i8(2, 16, 32),
        f32(2, 16),
        torch.tensor([2, 4]),
    ),
    bad("quant_matmul_dequant", "Ascend 310P", "of another dtype, too", bf16(4, 32), i8(16, 32), f32(16)),
]
