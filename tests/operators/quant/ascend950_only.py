"""Calls of operators that other chips than A2 and A3 have kernels for, as their documents make them."""

from support.call_table import bad
from support.tensors import bf16, ends, f16, f32, u8

AS = "as the document"
CHIP = "Ascend 950"
WRONG = [
    bad("anti_mx_quant", CHIP, AS, u8(2, 32), u8(2, 1, 2)),
    bad("dynamic_block_mx_quant", CHIP, AS, f16(2, 64)),
    bad("dynamic_dual_level_mx_quant", CHIP, AS, bf16(2, 512)),
    bad("dynamic_mx_quant", CHIP, AS, f16(2, 64)),
    bad("dynamic_mx_quant_with_dual_axis", CHIP, AS, f16(64, 64)),
    bad("grouped_dynamic_block_quant", CHIP, AS, bf16(4, 128), ends(2, 4)),
    bad("grouped_dynamic_mx_quant", CHIP, AS, bf16(4, 64), ends(2, 4)),
    bad("quant_max", CHIP, AS, bf16(16, 128), f32(1)),
    bad("dynamic_mx_quant", CHIP, "of another dtype, too", f32(2, 64)),
]
