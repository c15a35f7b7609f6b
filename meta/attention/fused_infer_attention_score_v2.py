"""npu_fused_infer_attention_score_v2: rules and results. See ``inference`` for the rules."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.destination import SCALAR_TYPES
from graph_quant.meta.attention.inference import AttentionPlan, plan_of
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.fused_infer_attention_score import fused_infer_attention_score as reference
from graph_quant.reference.attention.inference_call import Attributes, Operands
from torch import Tensor

OP = "npu_fused_infer_attention_score_v2"
PER_TOKEN_HEAD = 3


def plan_call(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    pse_shift: Tensor | None,
    atten_mask: Tensor | None,
    actual_seq_qlen: Sequence[int] | None,
    actual_seq_kvlen: Sequence[int] | None,
    block_table: Tensor | None,
    dequant_scale_query: Tensor | None,
    dequant_scale_key: Tensor | None,
    dequant_offset_key: Tensor | None,
    dequant_scale_value: Tensor | None,
    dequant_offset_value: Tensor | None,
    dequant_scale_key_rope: Tensor | None,
    quant_scale_out: Tensor | None,
    quant_offset_out: Tensor | None,
    quant_scale_p: Tensor | None,
    learnable_sink: Tensor | None,
    num_query_heads: int,
    num_key_value_heads: int,
    softmax_scale: float,
    pre_tokens: int,
    next_tokens: int,
    input_layout: str,
    sparse_mode: int,
    block_size: int,
    query_quant_mode: int,
    key_quant_mode: int,
    value_quant_mode: int,
    inner_precise: int,
    return_softmax_lse: bool,
    query_dtype: int | None,
    key_dtype: int | None,
    value_dtype: int | None,
    query_rope_dtype: int | None,
    key_rope_dtype: int | None,
    key_shared_prefix_dtype: int | None,
    value_shared_prefix_dtype: int | None,
    dequant_scale_query_dtype: int | None,
    dequant_scale_key_dtype: int | None,
    dequant_scale_value_dtype: int | None,
    dequant_scale_key_rope_dtype: int | None,
    out_dtype: int | None,
) -> AttentionPlan:
    """Checks a call against the documented rules, and returns its plan."""
    _check_reserved(
        rules,
        dequant_scale_key_rope=dequant_scale_key_rope,
        quant_scale_p=quant_scale_p,
        query_dtype=query_dtype,
        key_dtype=key_dtype,
        value_dtype=value_dtype,
        query_rope_dtype=query_rope_dtype,
        key_rope_dtype=key_rope_dtype,
        key_shared_prefix_dtype=key_shared_prefix_dtype,
        value_shared_prefix_dtype=value_shared_prefix_dtype,
        dequant_scale_query_dtype=dequant_scale_query_dtype,
        dequant_scale_key_dtype=dequant_scale_key_dtype,
        dequant_scale_value_dtype=dequant_scale_value_dtype,
        dequant_scale_key_rope_dtype=dequant_scale_key_rope_dtype,
    )
    rules.require(
        dequant_scale_query is None or query_quant_mode == PER_TOKEN_HEAD,
        lambda: f"query_quant_mode must be 3 with dequant_scale_query, got {query_quant_mode}",
    )
    operands = Operands(
        query, key, value, pse_shift, atten_mask,
        quant_scale2=quant_scale_out,
        quant_offset2=quant_offset_out,
        key_antiquant_scale=dequant_scale_key,
        key_antiquant_offset=dequant_offset_key,
        value_antiquant_scale=dequant_scale_value,
        value_antiquant_offset=dequant_offset_value,
        block_table=block_table,
        query_rope=query_rope,
        key_rope=key_rope,
        dequant_scale_query=dequant_scale_query,
        learnable_sink=learnable_sink,
    )  # fmt: skip
    attrs = Attributes(
        OP, input_layout, num_query_heads, num_key_value_heads, softmax_scale, pre_tokens, next_tokens, sparse_mode,
        inner_precise, block_size, 0, key_quant_mode, value_quant_mode, return_softmax_lse,
        actual_seq_qlen, actual_seq_kvlen,
    )  # fmt: skip
    plan = plan_of(rules, operands, attrs)
    check_out_dtype(rules, out_dtype, plan)
    return plan


def _check_reserved(rules: Rules, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            got = "a tensor" if isinstance(value, Tensor) else value
            rules.refuse(f"{name} is of Ascend 950 and must be None, got {got}")


def check_out_dtype(rules: Rules, out_dtype: int | None, plan: Plan) -> None:
    """What the result is follows from the inputs; ``out_dtype`` may only say it again."""
    if out_dtype is None:
        return
    result = plan.results[0]
    dtype: torch.dtype | None = SCALAR_TYPES.get(out_dtype)
    assert isinstance(result, Result)
    rules.require(dtype == result.dtype, lambda: f"out_dtype must be None or {result.dtype}, got {dtype or out_dtype}")


fused_infer_attention_score_v2 = operator("npu_fused_infer_attention_score_v2", reference=reference, chips=A2_A3_950)(
    plan_call
)
