"""Writes to caches that CANN has kernels for on Ascend 950 alone, as its documents say: refused with that reason."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_scatter_pa_cache.value")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    rules.refuse_for("Ascend 950")
