"""Cache writes for which CANN documents kernels on Ascend 950 only; every call is refused."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_scatter_pa_cache.value")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call."""
    rules.refuse_for("Ascend 950")
