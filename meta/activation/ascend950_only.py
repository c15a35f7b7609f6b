"""Activations that CANN has kernels for on Ascend 950 alone, as its documents say: refused with that reason."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_swiglu_group_quant")
@operator("npu_swiglu_group_quant_backward")
@operator("npu_swiglu_mx_quant")
@operator("npu_swiglu_mx_quant_with_dual_axis")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    rules.refuse_for("Ascend 950")
