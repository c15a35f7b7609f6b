"""Activations for which CANN documents kernels on Ascend 950 only; every call is refused."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_swiglu_group_quant")
@operator("npu_swiglu_group_quant_backward")
@operator("npu_swiglu_mx_quant")
@operator("npu_swiglu_mx_quant_with_dual_axis")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call."""
    rules.refuse_for("Ascend 950")
