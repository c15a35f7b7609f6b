"""npu_prompt_flash_attention and npu_incre_flash_attention: attention of a prompt, and of one decoded token."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.ge import CONTRACTION, kernel
from graph_quant.refusals import Refusal
from torch import Tensor

from .fused_attention import fused_attention
from .fused_attention_op import fused_attention_op
from .inference_call import Attributes, Operands

PROMPT, INCRE = "npu_prompt_flash_attention", "npu_incre_flash_attention"


def flash_attention(operands: Operands, attrs: Attributes) -> Tensor:
    """The attention without its log-sum-exp."""
    return fused_attention(operands, attrs)[0]


@kernel("PromptFlashAttention", flops=CONTRACTION)
def prompt_flash_attention_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pse_shift: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_lengths: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None,
    deq_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None,
    deq_scale2: Tensor | None = None,
    quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None,
    *,
    num_heads: int,
    scale_value: float = 1.0,
    pre_tokens: int = 214748647,
    next_tokens: int = 0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 1,
    sparse_mode: int = 0,
    inner_precise: int = 1,
) -> Tensor:
    operands = Operands(
        query, key, value, pse_shift, atten_mask, deq_scale1, quant_scale1, deq_scale2, quant_scale2, quant_offset2
    )
    attrs = Attributes(
        PROMPT, input_layout, num_heads, num_key_value_heads, scale_value, pre_tokens, next_tokens, sparse_mode,
        inner_precise,
    )  # fmt: skip
    return fused_attention_op(operands, attrs, (actual_seq_lengths, actual_seq_lengths_kv, None))[0]


@kernel("IncreFlashAttention", flops=CONTRACTION)
def incre_flash_attention_node(
    query: Tensor,
    key: Sequence[Tensor],
    value: Sequence[Tensor],
    pse_shift: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_lengths: Tensor | None = None,
    dequant_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None,
    dequant_scale2: Tensor | None = None,
    quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None,
    antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None,
    block_table: Tensor | None = None,
    kv_padding_size: Tensor | None = None,
    *,
    num_heads: int,
    scale_value: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 1,
    block_size: int = 0,
    inner_precise: int = 1,
) -> Tensor:
    if len(key) != 1 or len(value) != 1:
        raise Refusal(f"{INCRE}: key and value must be one tensor each, got {len(key)} and {len(value)}")
    operands = Operands(
        query, key[0], value[0], pse_shift, atten_mask, dequant_scale1, quant_scale1, dequant_scale2, quant_scale2,
        quant_offset2, antiquant_scale, antiquant_offset, block_table=block_table, kv_padding_size=kv_padding_size,
    )  # fmt: skip
    attrs = Attributes(
        INCRE, input_layout, num_heads, num_key_value_heads, scale_value,
        inner_precise=inner_precise, block_size=block_size,
    )  # fmt: skip
    return fused_attention_op(operands, attrs, (None, actual_seq_lengths, None))[0]
