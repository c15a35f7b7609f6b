"""npu_gelu, npu_fast_gelu, fast_gelu, npu_silu and npu_silu_: float tensors of at most eight dimensions."""

from __future__ import annotations

from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation import gelu as reference
from torch import Tensor

APPROXIMATIONS = ("none", "tanh")


def _plan_like(rules: Rules, x: Tensor) -> Plan:
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 0, 8)
    return Plan((Result(tuple(x.shape), x.dtype),))


@operator("npu_gelu", reference=reference.gelu)
def gelu(rules: Rules, x: Tensor, approximate: str) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.require(approximate in APPROXIMATIONS, lambda: f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return _plan_like(rules, x)


@operator("npu_fast_gelu", reference=reference.fast_gelu, chips=A2_A3_950)
def npu_fast_gelu(rules: Rules, x: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    return _plan_like(rules, x)


@operator("fast_gelu", reference=reference.fast_gelu, chips=A2_A3_950)
def fast_gelu(rules: Rules, x: Tensor) -> Plan:
    """The older name of npu_fast_gelu."""
    return _plan_like(rules, x)


@operator("npu_silu", reference=reference.silu, node="Swish", chips=A2_A3_950)
def silu(rules: Rules, x: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    return _plan_like(rules, x)


@operator("npu_silu_", reference=reference.silu_in_place, chips=A2_A3_950)
def silu_in_place(rules: Rules, input: Tensor) -> Plan:  # noqa: A002
    """The in-place form of npu_silu."""
    _plan_like(rules, input)
    return Plan(("input",))
