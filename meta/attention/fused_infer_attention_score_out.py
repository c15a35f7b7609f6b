"""npu_fused_infer_attention_score in captured graphs: the out variants and their workspace queries.

Arguments and rules are those of the operator. The host needs no workspace: a query for one returns an empty tensor, and
a workspace that is passed is ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.attention.fused_infer_attention_score import plan_call as first
from graph_quant.meta.attention.fused_infer_attention_score_v2 import plan_call as second
from graph_quant.meta.attention.inference import AttentionPlan
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.atb import empty_workspace
from graph_quant.reference.attention.fused_attention import fused_attention
from torch import Tensor


@dataclass(frozen=True)
class OutPlan(Plan):
    """``computed`` is the plan of the call without ``out``."""

    computed: AttentionPlan


def write_out(computed: AttentionPlan, out: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Computes into the tensors of ``out``."""
    assert computed.operands is not None
    results = fused_attention(computed.operands, computed.attrs)
    return tuple(
        tensor.copy_(result) if result.numel() else tensor for tensor, result in zip(out, results, strict=True)
    )


def _names(plan_call: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(plan_call).parameters)


def _plan_out(plan_call: Callable[..., AttentionPlan]) -> Callable[..., OutPlan]:
    def plan_out(rules: Rules, *values: Any) -> OutPlan:
        *arguments, workspace, out = values
        if workspace is not None:
            rules.dtype("workspace", workspace, (torch.uint8,))
        plan = plan_call(rules, *arguments)
        rules.require(len(out) == 2, lambda: f"out must have 2 tensors, got {len(out)}")
        for index, (result, tensor) in enumerate(zip(plan.results, out, strict=True)):
            assert isinstance(result, Result)
            if 0 in result.shape:  # nothing is written: the documents pass one element of any dtype
                continue
            rules.dtype(f"out[{index}]", tensor, (result.dtype,))
            rules.require(
                tuple(tensor.shape) == result.shape,
                lambda: f"out[{index}] must be {list(result.shape)}, got {list(tensor.shape)}",  # noqa: B023
            )
        return OutPlan(("out[0]", "out[1]"), plan)

    return with_signature((*_names(plan_call), "workspace", "out"), plan_out)


def _plan_workspace(plan_call: Callable[..., AttentionPlan]) -> Callable[..., Plan]:
    def plan_workspace(rules: Rules, *values: Any) -> Plan:
        plan_call(rules, *values)
        return Plan((Result((0,), torch.uint8),))

    return with_signature(_names(plan_call), plan_workspace)


operator("npu_fused_infer_attention_score.out", reference=write_out, chips=A2_A3_950)(_plan_out(first))
operator("npu_fused_infer_attention_score_v2.out", reference=write_out, chips=A2_A3_950)(_plan_out(second))
operator("_npu_fused_infer_attention_score_get_max_workspace", reference=empty_workspace, chips=A2_A3_950)(
    _plan_workspace(first)
)
operator("_npu_fused_infer_attention_score_v2_get_max_workspace", reference=empty_workspace, chips=A2_A3_950)(
    _plan_workspace(second)
)
