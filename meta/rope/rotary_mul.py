"""npu_rotary_mul: what may be passed, and what comes back.

input has three or four dimensions and an even width. r1 (cosines) and r2 (sines) are alike: of input's rank and width,
every other size 1 or input's. rotary_mode is half or interleave; rotate, where it is given, the matrix that turns.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.rope.rotary_mul import rotary_mul as reference
from graph_quant.reference.rope.rotation import MODES
from torch import Tensor


@operator("npu_rotary_mul", reference=reference)
def rotary_mul(rules: Rules, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str, rotate: Tensor | None) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 3, 4)
    rules.require(x.size(-1) % 2 == 0, lambda: f"input.size(-1) must be even, got {x.size(-1)}")
    for name, coefficients in (("r1", r1), ("r2", r2)):
        rules.dtype(name, coefficients, FLOATS)
        rules.rank(name, coefficients, x.dim(), why=", as input has")
        rules.equal(f"{name}.size(-1)", coefficients.size(-1), "input.size(-1)", x.size(-1))
        for dim in range(x.dim() - 1):
            rules.one_or(f"{name}.size({dim})", coefficients.size(dim), f"input.size({dim})", x.size(dim))
    for dim in range(x.dim()):
        rules.equal(f"r2.size({dim})", r2.size(dim), f"r1.size({dim})", r1.size(dim))
    # In the words of torch_npu, which its own tests ask for.
    words = f"The rotary_mode of npu_rotary_mul should be {' or '.join(MODES)}, but got"
    rules.require(rotary_mode in MODES, lambda: f"{words} {rotary_mode!r}")
    if rotate is not None:
        rules.dtype("rotate", rotate, FLOATS)
        rules.rank("rotate", rotate, 2)
        for dim in range(2):
            rules.equal(f"rotate.size({dim})", rotate.size(dim), "input.size(-1)", x.size(-1))
    return Plan((Result(tuple(x.shape), x.dtype),))
