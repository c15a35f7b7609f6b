"""Calls of operators without kernels for A2 and A3, as in their documents."""

from support.call_table import bad
from support.tensors import bf16

WRONG = [
    bad("swiglu_group_quant", "Ascend 950", "as the document", bf16(2, 64)),
    bad("swiglu_group_quant_backward", "Ascend 950", "as the document", bf16(2, 32), bf16(2, 64)),
    bad("swiglu_mx_quant", "Ascend 950", "as the document", bf16(2, 64)),
    bad("swiglu_mx_quant_with_dual_axis", "Ascend 950", "as the document", bf16(2, 64)),
]
