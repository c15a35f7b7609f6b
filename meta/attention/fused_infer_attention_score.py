"""npu_fused_infer_attention_score: rules and results. See ``inference`` for the rules."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.chip import A2_A3_950
from graph_quant.meta.attention.inference import AttentionPlan, plan_of
from graph_quant.meta.operator import operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.fused_infer_attention_score import fused_infer_attention_score as reference
from graph_quant.reference.attention.inference_call import Attributes, Operands
from torch import Tensor

OP = "npu_fused_infer_attention_score"


def plan_call(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pse_shift: Tensor | None,
    atten_mask: Tensor | None,
    actual_seq_lengths: Sequence[int] | None,
    actual_seq_lengths_kv: Sequence[int] | None,
    dequant_scale1: Tensor | None,
    quant_scale1: Tensor | None,
    dequant_scale2: Tensor | None,
    quant_scale2: Tensor | None,
    quant_offset2: Tensor | None,
    antiquant_scale: Tensor | None,
    antiquant_offset: Tensor | None,
    key_antiquant_scale: Tensor | None,
    key_antiquant_offset: Tensor | None,
    value_antiquant_scale: Tensor | None,
    value_antiquant_offset: Tensor | None,
    block_table: Tensor | None,
    query_padding_size: Tensor | None,
    kv_padding_size: Tensor | None,
    key_shared_prefix: Tensor | None,
    value_shared_prefix: Tensor | None,
    actual_shared_prefix_len: Sequence[int] | None,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    key_rope_antiquant_scale: Tensor | None,
    num_heads: int,
    scale: float,
    pre_tokens: int,
    next_tokens: int,
    input_layout: str,
    num_key_value_heads: int,
    sparse_mode: int,
    inner_precise: int,
    block_size: int,
    antiquant_mode: int,
    key_antiquant_mode: int,
    value_antiquant_mode: int,
    softmax_lse_flag: bool,
) -> AttentionPlan:
    """Checks a call against the documented rules, and returns its plan."""
    if key_rope_antiquant_scale is not None:
        rules.refuse("key_rope_antiquant_scale is reserved and must be None, got a tensor")
    operands = Operands(
        query, key, value, pse_shift, atten_mask, dequant_scale1, quant_scale1, dequant_scale2, quant_scale2,
        quant_offset2, antiquant_scale, antiquant_offset, key_antiquant_scale, key_antiquant_offset,
        value_antiquant_scale, value_antiquant_offset, block_table, query_padding_size, kv_padding_size,
        key_shared_prefix, value_shared_prefix, query_rope, key_rope,
    )  # fmt: skip
    attrs = Attributes(
        OP, input_layout, num_heads, num_key_value_heads, scale, pre_tokens, next_tokens, sparse_mode, inner_precise,
        block_size, antiquant_mode, key_antiquant_mode, value_antiquant_mode, softmax_lse_flag,
        actual_seq_lengths, actual_seq_lengths_kv, actual_shared_prefix_len,
    )  # fmt: skip
    return plan_of(rules, operands, attrs)


fused_infer_attention_score = operator("npu_fused_infer_attention_score", reference=reference, chips=A2_A3_950)(
    plan_call
)
