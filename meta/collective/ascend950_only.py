"""Operators for which CANN documents no kernel on A2 and A3; every call is refused."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_alltoallv_quant_gmm")
@operator("npu_quant_gmm_alltoallv")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call."""
    rules.refuse_for("Ascend 950")
