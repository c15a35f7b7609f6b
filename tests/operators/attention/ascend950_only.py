"""Documented calls of operators without kernels for A2 and A3."""

from support.call_table import bad
from support.tensors import bf16, f16

WRONG = [
    bad("fused_causal_conv1d", "Ascend 950", "as the document", bf16(4, 64), bf16(3, 64), bf16(1, 2, 64)),
    bad("masked_causal_conv1d", "Ascend 950", "as the document", bf16(4, 1, 64), bf16(3, 64)),
    bad("masked_causal_conv1d_backward", "Ascend 950", "its gradient", *[bf16(4, 1, 64)] * 2, bf16(3, 64)),
    bad(
        "fused_attention_score", "Ascend 910", "as the document", *[f16(1, 2, 32, 64)] * 3, f16(1, 2, 32, 32), 0.1, 1.0
    ),
]
