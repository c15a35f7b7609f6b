"""Quantisation operators for which CANN has kernels only on Ascend 950: refused with that reason."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_anti_mx_quant")
@operator("npu_grouped_dynamic_block_quant")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call: only Ascend 950 has a kernel."""
    rules.refuse_for("Ascend 950")
