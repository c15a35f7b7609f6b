"""npu_gelu_mul: argument rules and results.

input has two to eight dimensions, float32, float16 or bfloat16: at most 200000 rows, possibly none, of an even
width of at most 1024. The result has half the width.
"""

from __future__ import annotations

import math

from graph_quant.meta.activation.gelu import APPROXIMATIONS
from graph_quant.meta.activation.swiglu import halve_shape
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.gelu_mul import gelu_mul as reference
from torch import Tensor

WIDEST, MOST_ROWS = 1024, 200000


@operator("npu_gelu_mul", reference=reference)
def gelu_mul(rules: Rules, x: Tensor, approximate: str) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.require(approximate in APPROXIMATIONS, lambda: f"approximate must be 'none' or 'tanh', got {approximate!r}")
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 2, 8)
    width, rows = x.size(-1), math.prod(x.shape[:-1])
    rules.at_least("input.size(-1)", width, 1)
    rules.require(width <= WIDEST, lambda: f"input.size(-1) must be at most {WIDEST}, got {width}")
    rules.require(rows <= MOST_ROWS, lambda: f"input must have at most {MOST_ROWS} rows, got {rows}")
    return Plan((Result(halve_shape(rules, "input", x, -1), x.dtype),))
