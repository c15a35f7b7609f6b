"""What CANN has kernels for on other chips than A2 and A3, as the kernels' documents say: refused with that reason."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_alltoallv_quant_gmm")
@operator("npu_quant_gmm_alltoallv")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    rules.refuse_for("Ascend 950")
