"""npu_geglu: argument rules and results.

input has one to eight dimensions, float32, float16 or bfloat16, and an even size in ``dim``. approximate is 0 or 1.
Both results have half the size in ``dim``.
"""

from __future__ import annotations

from graph_quant.meta.activation.swiglu import halve_shape
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.geglu import geglu as reference
from torch import Tensor


@operator("npu_geglu", reference=reference)
def geglu(rules: Rules, x: Tensor, dim: int, approximate: int, activate_left: bool) -> Plan:  # noqa: ARG001
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.one_of("approximate", approximate, (0, 1))
    half = Result(halve_shape(rules, "input", x, dim), x.dtype)
    return Plan((half, half))
