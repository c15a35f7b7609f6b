"""Products that CANN has kernels for on other chips than A2 and A3, as its documents say: refused with that reason."""

from __future__ import annotations

from typing import Any, NoReturn

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules


def _refuse(rules: Rules, chip: str) -> NoReturn:
    rules.refuse(f"it must run on {chip}, which alone has a kernel for it, got Ascend A2 or A3")


@operator("npu_transpose_quant_batchmatmul")
def transpose_quant_batchmatmul(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    _refuse(rules, "Ascend 950")


@operator("npu_quant_conv2d")
def quant_conv2d(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    _refuse(rules, "Ascend 950")


@operator("npu_quant_matmul_dequant")
def quant_matmul_dequant(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    _refuse(rules, "Ascend 310P")


@operator("npu_quant_grouped_matmul_dequant")
def quant_grouped_matmul_dequant(rules: Rules, *_values: Any) -> Plan:
    """Refused."""
    _refuse(rules, "Ascend 310P")
