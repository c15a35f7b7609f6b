"""Uninitialised results of npu_fused_infer_attention_score, which captured graphs write into.

``NPUGraph.update`` needs the out variant of the operator, and torch_npu allocates its tensors here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.attention.fused_infer_attention_score import OP as FIRST
from graph_quant.meta.attention.fused_infer_attention_score_v2 import OP as SECOND
from graph_quant.meta.attention.fused_infer_attention_score_v2 import check_out_dtype
from graph_quant.meta.attention.inference import check_query, results_of
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.inference_call import Attributes, Operands
from torch import Tensor


@dataclass(frozen=True)
class OutputPlan(Plan):
    """``allocated`` are the tensors to allocate."""

    allocated: tuple[Result, Result]


def allocate(query: Tensor, allocated: tuple[Result, Result]) -> tuple[Tensor, Tensor]:
    """Uninitialised tensors."""
    result, logarithms = (torch.empty(spec.shape, dtype=spec.dtype, device=query.device) for spec in allocated)
    return result, logarithms


def _plan(rules: Rules, operands: Operands, attrs: Attributes) -> OutputPlan:
    check_query(rules, operands, attrs)
    results = results_of(operands, attrs)
    return OutputPlan(results, results)


@operator("_npu_fused_infer_attention_score_infer_output", reference=allocate, chips=A2_A3_950)
def first(
    rules: Rules,
    query: Tensor,
    value: Tensor,
    input_layout: str,
    quant_scale2: Tensor | None,
    block_table: Tensor | None,
    num_heads: int,
    num_key_value_heads: int,
    softmax_lse_flag: bool,
    query_rope: Tensor | None,
) -> OutputPlan:
    """The plan of a call; the results do not depend on key, and value stands in for it."""
    operands = Operands(query, value, value, quant_scale2=quant_scale2, block_table=block_table, query_rope=query_rope)
    attrs = Attributes(FIRST, input_layout, num_heads, num_key_value_heads, softmax_lse_flag=softmax_lse_flag)
    return _plan(rules, operands, attrs)


@operator("_npu_fused_infer_attention_score_v2_infer_output", reference=allocate, chips=A2_A3_950)
def second(
    rules: Rules,
    query: Tensor,
    value: Tensor,
    query_dtype: int | None,
    value_dtype: int | None,
    input_layout: str,
    quant_scale_out: Tensor | None,
    block_table: Tensor | None,
    num_query_heads: int,
    num_key_value_heads: int,
    return_softmax_lse: bool,
    query_rope: Tensor | None,
    out_dtype: int | None,
) -> OutputPlan:
    """The same for the second version."""
    for name, dtype in (("query_dtype", query_dtype), ("value_dtype", value_dtype)):
        if dtype is not None:
            rules.refuse(f"{name} is of Ascend 950 and must be None, got {dtype}")
    operands = Operands(
        query, value, value, quant_scale2=quant_scale_out, block_table=block_table, query_rope=query_rope
    )
    attrs = Attributes(SECOND, input_layout, num_query_heads, num_key_value_heads, softmax_lse_flag=return_softmax_lse)
    plan = _plan(rules, operands, attrs)
    check_out_dtype(rules, out_dtype, plan)
    return plan
