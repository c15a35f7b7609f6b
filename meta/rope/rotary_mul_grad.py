"""The gradient of npu_rotary_mul, which torch_npu's autograd calls.

input and grad have three or four dimensions, the last, D, even and at most 896; r1 and r2 are laid out as forward. Of
each element of r1 at most 1024 terms are summed, in mode interleave less than 1000. No tensor may be empty. Dtypes
other than input's are converted to it; all gradients are of it. Those of r1 and r2 are computed here always; the device
leaves what was in memory where neither asks for one.

On Ascend 950 widths, layouts and modes are those of npu_rotary_mul there, and any number of terms is summed.
"""

from __future__ import annotations

import math

from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rope.rotary_mul import LAYOUTS, check_layout, check_width
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.rope.rotary_mul_grad import rotary_mul_backward as reference
from graph_quant.reference.rope.rotation import HALF, modes
from torch import Tensor


@operator("npu_rotary_mul_backward", reference=reference, chips=A2_A3_950)
def rotary_mul_backward(rules: Rules, grad: Tensor, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str) -> Plan:
    """Checks a call against the rules of the device, and returns its plan."""
    known = modes()
    rules.require(rotary_mode in known, lambda: f"rotary_mode must be one of {', '.join(known)}, got {rotary_mode!r}")
    for name, tensor in (("input", x), ("grad", grad), ("r1", r1), ("r2", r2)):
        rules.dtype(name, tensor, FLOATS)
        rules.rank(name, tensor, *((3, 4) if tensor is x else (x.dim(),)))
    rules.not_empty("input", x)
    check_width(rules, x, rotary_mode)
    for dim in range(x.dim()):
        rules.equal(f"grad.size({dim})", grad.size(dim), f"input.size({dim})", x.size(dim))
        rules.equal(f"r2.size({dim})", r2.size(dim), f"r1.size({dim})", r1.size(dim))
    rules.equal("r1.size(-1)", r1.size(-1), "input.size(-1)", x.size(-1))
    of_r = Result(tuple(r1.shape), x.dtype)
    plan = Plan((Result(tuple(x.shape), x.dtype), of_r, of_r))
    if rules.chip is ASCEND_950:
        for dim in range(x.dim() - 1):
            rules.one_or(f"r1.size({dim})", r1.size(dim), f"input.size({dim})", x.size(dim))
        return plan
    check_layout(rules, x, r1, LAYOUTS[x.dim()][rotary_mode])
    terms, elements = math.prod(x.shape[:-1]), math.prod(r1.shape[:-1])
    most = 1024 if rotary_mode == HALF else 999
    rules.require(
        terms <= most * elements,
        lambda: f"r1.size must leave at most {most} terms of input to an element, got {list(r1.shape)}",
    )
    return plan
