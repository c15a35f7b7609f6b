"""Which calls go to the kernel of packed sequences that splits and fuses them, as the tiling of A2 and A3 decides.

torch_npu's document knows few widths of heads, as tilings did until November 2025. Since December (CANN 8.5 and 9) this
kernel takes calls of layout TND, with any width of query, key and value alike, and sequences without keys.
"""

from __future__ import annotations

from typing import Any

import torch

from .inference_call import Attributes, Operands
from .masks import TREE
from .results import query_sizes

WIDEST, _MOST_BLOCK = 256, 512
_OPERATOR = "npu_fused_infer_attention_score"


def is_split_fuse(operands: Operands, attrs: Attributes) -> bool:
    """Whether a call goes to this kernel."""
    width = query_sizes(operands.query, attrs)[3]
    return _takes_attributes(operands, attrs) and width == value_width(operands, attrs) <= WIDEST


def _takes_attributes(operands: Operands, attrs: Attributes) -> bool:
    sink = operands.learnable_sink
    precise = attrs.inner_precise == 0 or (
        attrs.num_heads == attrs.kv_heads and not (operands.query.dtype == torch.bfloat16 and attrs.inner_precise == 1)
    )
    return (
        attrs.op.startswith(_OPERATOR)
        and attrs.input_layout == "TND"
        and operands.query_rope is None
        and operands.quant_scale2 is None
        and operands.pse_shift is None
        and (sink is None or (sink.dtype == operands.query.dtype and attrs.inner_precise == 0))
        and (operands.atten_mask is None) == (attrs.sparse_mode == 0)
        and attrs.sparse_mode != TREE
        and precise
        and (operands.block_table is None or (operands.key.dim() == 3 and attrs.block_size <= _MOST_BLOCK))
    )


def value_width(operands: Operands, attrs: Attributes) -> Any:
    """The channels of a head of value."""
    value = operands.value
    if operands.block_table is None or value.dim() == 4:
        return value.size(-1)
    return value.size(2) * value.size(4) if value.dim() == 5 else value.size(2) // attrs.kv_heads
