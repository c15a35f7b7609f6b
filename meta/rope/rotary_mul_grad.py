"""The gradient of npu_rotary_mul, which torch_npu's autograd calls.

input and grad are (a, b, c, D) with D even and at most 896. The kernels know fewer shapes of r1 and r2 than the forward
ones: in mode half input's own, (1, b, 1), (a, b, 1), (1, 1, c), (a, 1, c) and (a, 1, 1); in mode interleave (1, b, 1),
(1, 1, c) and (a, 1, 1). Of each element of r1 at most 1024 terms are summed, in mode interleave less than 1000. No
tensor may be empty. Dtypes other than input's are converted to it; all gradients are of it. Those of r1 and r2 are
computed here always; the device leaves what was in memory where neither asks for one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Condition, Rules, sym_or
from graph_quant.reference.rope.rotary_mul_grad import rotary_mul_backward as reference
from graph_quant.reference.rope.rotation import HALF, MODES
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import sym_and

WIDEST = 896
# Which of the first three sizes r1 has as input has them; the others are 1.
SHAPES = {
    "half": ((0, 1, 2), (1,), (0, 1), (2,), (0, 2), (0,)),
    "interleave": ((1,), (2,), (0,)),
}


@operator("npu_rotary_mul_backward", reference=reference)
def rotary_mul_backward(rules: Rules, grad: Tensor, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str) -> Plan:
    """The plan of a call that the device allows; any other call is refused."""
    rules.require(rotary_mode in MODES, lambda: f"rotary_mode must be one of {', '.join(MODES)}, got {rotary_mode!r}")
    for name, tensor in (("input", x), ("grad", grad), ("r1", r1), ("r2", r2)):
        rules.dtype(name, tensor, FLOATS)
        rules.rank(name, tensor, 4)
    rules.not_empty("input", x)
    width = x.size(-1)
    rules.require(width % 2 == 0, lambda: f"input.size(-1) must be even, got {width}")
    rules.require(width <= WIDEST, lambda: f"input.size(-1) must be at most {WIDEST}, got {width}")
    for dim in range(4):
        rules.equal(f"grad.size({dim})", grad.size(dim), f"input.size({dim})", x.size(dim))
        rules.equal(f"r2.size({dim})", r2.size(dim), f"r1.size({dim})", r1.size(dim))
    rules.equal("r1.size(-1)", r1.size(-1), "input.size(-1)", width)
    rules.require(
        sym_or(*(_has(r1, x, kept) for kept in SHAPES[rotary_mode])),
        lambda: f"r1.size must be one of {_listed(x, rotary_mode)}, got {list(r1.shape)}",
    )
    terms, elements = math.prod(x.shape[:-1]), math.prod(r1.shape[:-1])
    most = 1024 if rotary_mode == HALF else 999
    rules.require(
        terms <= most * elements,
        lambda: f"r1.size must leave at most {most} terms of input to an element, got {list(r1.shape)}",
    )
    of_r = Result(tuple(r1.shape), x.dtype)
    return Plan((Result(tuple(x.shape), x.dtype), of_r, of_r))


def _has(r1: Tensor, x: Tensor, kept: Sequence[int]) -> Condition:
    condition: Condition = sym_and(*(r1.size(dim) == (x.size(dim) if dim in kept else 1) for dim in range(3)))
    return condition


def _listed(x: Tensor, mode: str) -> str:
    return ", ".join(str([x.size(dim) if dim in (*kept, 3) else 1 for dim in range(4)]) for kept in SHAPES[mode])
