"""npu_incre_flash_attention: rules and results. See ``inference`` for the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from graph_quant.meta.attention.inference import AttentionPlan, plan_of
from graph_quant.meta.operator import operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.flash_attention import INCRE, flash_attention
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.results import query_sizes
from torch import Tensor

LAYOUTS = ("BSH", "BSND", "BNSD")


@operator("npu_incre_flash_attention", reference=flash_attention)
def incre_flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding_mask: Tensor | None,
    atten_mask: Tensor | None,
    pse_shift: Tensor | None,
    actual_seq_lengths: Sequence[int] | None,
    antiquant_scale: Tensor | None,
    antiquant_offset: Tensor | None,
    block_table: Tensor | None,
    dequant_scale1: Tensor | None,
    quant_scale1: Tensor | None,
    dequant_scale2: Tensor | None,
    quant_scale2: Tensor | None,
    quant_offset2: Tensor | None,
    kv_padding_size: Tensor | None,
    num_heads: int,
    scale_value: float,
    input_layout: str,
    num_key_value_heads: int,
    block_size: int,
    inner_precise: int,
) -> AttentionPlan:
    """Checks a call against the documented rules, and returns its plan."""
    if padding_mask is not None:
        rules.refuse("padding_mask is reserved and must be None, got a tensor")
    rules.require(inner_precise in (0, 1), lambda: f"inner_precise must be 0 or 1, got {inner_precise}")
    rules.dtype("query", query, (torch.float16, torch.bfloat16))
    operands = Operands(
        query, key, value, pse_shift, atten_mask, dequant_scale1, quant_scale1, dequant_scale2, quant_scale2,
        quant_offset2, antiquant_scale, antiquant_offset, block_table=block_table, kv_padding_size=kv_padding_size,
    )  # fmt: skip
    attrs = Attributes(
        INCRE, input_layout, num_heads, num_key_value_heads, scale_value,
        inner_precise=inner_precise,
        block_size=block_size,
        actual_seq_lengths_kv=actual_seq_lengths,
    )  # fmt: skip
    plan = plan_of(rules, operands, attrs, LAYOUTS)
    tokens = query_sizes(query, attrs)[2]
    rules.require(tokens == 1, lambda: f"query must have one token, got {tokens}")
    return replace(plan, results=plan.results[:1])
