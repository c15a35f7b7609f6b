"""Norms and hyper-connections for which CANN documents kernels on Ascend 950 only; every call is refused."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


@operator("_npu_rms_norm_backward_quant")
@operator("npu_mhc_pre")
@operator("npu_mhc_pre_backward")
@operator("npu_mhc_sinkhorn")
@operator("npu_mhc_sinkhorn_backward")
def on_950(rules: Rules, *_values: Any) -> Plan:
    """Refuse every call."""
    rules.refuse_for("Ascend 950")
