"""Products for which CANN has kernels only on other chips than A2 and A3: refused with that reason."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("npu_add_quant_gmm")
@operator("npu_add_quant_gmm_")
@operator("npu_fused_matmul")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call: only Ascend 950 has a kernel."""
    rules.refuse_for("Ascend 950")


@operator("npu_quant_grouped_matmul_dequant")
@operator("npu_quant_matmul_dequant")
def on_310p(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call: only Ascend 310P has a kernel."""
    rules.refuse_for("Ascend 310P")
