"""Calls of operators without kernels for A2 and A3, as in their documents."""

from support.call_table import Call, bad
from support.tensors import bf16, f32

AS = "as the document"
CHIP = "Ascend 950"
PRE = (bf16(2, 4, 16), f32(24, 64), f32(3), f32(24))
WRONG = [
    bad("add_rms_norm_dynamic_mx_quant", CHIP, AS, bf16(2, 64), bf16(2, 64), bf16(64)),
    bad("rms_norm_dynamic_mx_quant", CHIP, AS, bf16(2, 64), bf16(64)),
    bad("rms_norm_quant_v2", CHIP, AS, bf16(2, 64), bf16(64), f32(1)),
    Call("_npu_rms_norm_backward_quant", AS, (bf16(2, 64), bf16(2, 64), f32(2), bf16(64), f32(1)), argument=CHIP),
    bad("mhc_pre", CHIP, AS, *PRE),
    bad("mhc_sinkhorn", CHIP, AS, f32(2, 4, 4)),
    bad("mhc_sinkhorn_backward", CHIP, AS, f32(2, 4, 4), f32(20, 2, 4, 4), f32(20, 2, 4)),
]
