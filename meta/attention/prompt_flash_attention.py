"""npu_prompt_flash_attention: rules and results. See ``inference`` for the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graph_quant.meta.attention.inference import AttentionPlan, plan_of
from graph_quant.meta.operator import operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.flash_attention import PROMPT, flash_attention
from graph_quant.reference.attention.inference_call import Attributes, Operands
from torch import Tensor

LAYOUTS = ("BSH", "BSND", "BNSD", "BNSD_BSND", "NSD", "TND")
# Asked for with a ten more, a sparse mode is computed at high precision, as all of them are here.
HIGH_PRECISION = 10


@operator("npu_prompt_flash_attention", reference=flash_attention)
def prompt_flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding_mask: Tensor | None,
    atten_mask: Tensor | None,
    pse_shift: Tensor | None,
    actual_seq_lengths: Sequence[int] | None,
    deq_scale1: Tensor | None,
    quant_scale1: Tensor | None,
    deq_scale2: Tensor | None,
    quant_scale2: Tensor | None,
    quant_offset2: Tensor | None,
    num_heads: int,
    scale_value: float,
    pre_tokens: int,
    next_tokens: int,
    input_layout: str,
    num_key_value_heads: int,
    actual_seq_lengths_kv: Sequence[int] | None,
    sparse_mode: int,
) -> AttentionPlan:
    """Checks a call against the documented rules, and returns its plan."""
    if padding_mask is not None:
        rules.refuse("padding_mask is reserved and must be None, got a tensor")
    rules.dtype("key", key, (query.dtype,), why=", the dtype of query")
    operands = Operands(
        query, key, value, pse_shift, atten_mask, deq_scale1, quant_scale1, deq_scale2, quant_scale2, quant_offset2
    )
    mode = sparse_mode - HIGH_PRECISION if HIGH_PRECISION <= sparse_mode <= HIGH_PRECISION + 4 else sparse_mode
    attrs = Attributes(
        PROMPT, input_layout, num_heads, num_key_value_heads, scale_value, pre_tokens, next_tokens, mode,
        actual_seq_lengths=actual_seq_lengths,
        actual_seq_lengths_kv=actual_seq_lengths_kv,
    )  # fmt: skip
    plan = plan_of(rules, operands, attrs, LAYOUTS)
    return replace(plan, results=plan.results[:1])
