"""npu_interleave_rope: rules and results.

x is (B, N, S, 64) of float16 or bfloat16; cos and sin are alike, (B, 1, S, 64) or (B, 1, 1, 64) of its dtype.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.rope.interleave_rope import interleave_rope as reference
from torch import Tensor

WIDTH = 64


@operator("npu_interleave_rope", reference=reference)
def interleave_rope(rules: Rules, x: Tensor, cos: Tensor, sin: Tensor) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.rank("x", x, 4)
    rules.equal("x.size(3)", x.size(3), "64", WIDTH)
    for name, coefficients in (("cos", cos), ("sin", sin)):
        rules.dtype(name, coefficients, (x.dtype,), ", the dtype of x")
        rules.rank(name, coefficients, 4)
        rules.equal(f"{name}.size(0)", coefficients.size(0), "x.size(0)", x.size(0))
        rules.equal(f"{name}.size(1)", coefficients.size(1), "1", 1)
        rules.one_or(f"{name}.size(2)", coefficients.size(2), "x.size(2)", x.size(2))
        rules.equal(f"{name}.size(3)", coefficients.size(3), "64", WIDTH)
    rules.equal("sin.size(2)", sin.size(2), "cos.size(2)", cos.size(2))
    return Plan((Result(tuple(x.shape), x.dtype),))
