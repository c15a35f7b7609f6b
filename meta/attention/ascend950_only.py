"""Operators that CANN documents for other chips than A2 and A3 only: refused with that reason."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_fused_causal_conv1d")
@operator("npu_fused_causal_conv1d_v2")
@operator("npu_masked_causal_conv1d")
@operator("npu_masked_causal_conv1d_backward")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    rules.refuse_for("Ascend 950")


@operator("npu_fused_attention_score")
@operator("npu_fused_attention_score_backward")
@operator("npu_fused_attention_score_fwd")
@operator("npu_fused_attention_score_grad")
def on_910(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    rules.refuse_for("the first Ascend 910 or 310P")
