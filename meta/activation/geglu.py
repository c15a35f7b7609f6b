"""npu_geglu: argument rules and results.

input has one to eight dimensions, float32, float16 or bfloat16, and an even size in ``dim``. approximate is 0 or 1.
Both results have half the size in ``dim``. On Ascend 950 approximate 0 is refused: its erf is of a library whose
source is not public.
"""

from __future__ import annotations

from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.activation.swiglu import halve_shape
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.geglu import geglu as reference
from torch import Tensor


@operator("npu_geglu", reference=reference, chips=A2_A3_950)
def geglu(rules: Rules, x: Tensor, dim: int, approximate: int, activate_left: bool) -> Plan:  # noqa: ARG001
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.one_of("approximate", approximate, (0, 1))
    rules.require(
        rules.chip is not ASCEND_950 or approximate == 1,
        lambda: f"approximate must be 1, others are not described for {rules.chip.name} yet, got {approximate}",
    )
    half = Result(halve_shape(rules, "input", x, dim), x.dtype)
    return Plan((half, half))
