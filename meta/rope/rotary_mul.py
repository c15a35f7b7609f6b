"""npu_rotary_mul: rules and results.

input has three or four dimensions and an even width, at most 896. r1 (cosines) and r2 (sines) are alike: of input's
rank and width, every other size 1 or input's, in the layouts that the device's kernels know for rotary_mode, half or
interleave. rotate, where it is given, is the matrix that turns, of input's dtype; input then has four dimensions.

On Ascend 950 the width is at most 1024, r1 may be broadcast to input in every way, rotary_mode is also quarter or
interleave-half, and there is no rotate.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, TILING_ERROR, Condition, Rules, sym_or
from graph_quant.reference.rope.rotary_mul import rotary_mul as reference
from graph_quant.reference.rope.rotation import HALF, INTERLEAVE, QUARTER, modes
from graph_quant.releases.alternatives import sym_and
from torch import Tensor

WIDEST, WIDEST_950 = 896, 1024
# What the tiling of layout BNSD counts with: bytes of a block, and vector cores of the smallest A2.
_BLOCK, _FEWEST_CORES, _LEAST_UNALIGNED = 32, 40, 80
# Which of the first sizes r1 has as input has them; the others are 1. By input's rank and mode.
Layouts = tuple[tuple[int, ...], ...]
LAYOUTS: dict[int, dict[str, Layouts]] = {
    3: {HALF: ((0, 1), (0,), (1,), ()), INTERLEAVE: ((0,), (1,), ())},
    4: {HALF: ((0, 1, 2), (1,), (0, 1), (2,), (0, 2), (0,)), INTERLEAVE: ((1,), (2,), (0,))},
}


@operator("npu_rotary_mul", reference=reference, chips=A2_A3_950)
def rotary_mul(rules: Rules, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str, rotate: Tensor | None) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 3, 4)
    check_width(rules, x, rotary_mode)
    for name, coefficients in (("r1", r1), ("r2", r2)):
        rules.dtype(name, coefficients, FLOATS)
        rules.rank(name, coefficients, x.dim(), why=", as input has")
        rules.equal(f"{name}.size(-1)", coefficients.size(-1), "input.size(-1)", x.size(-1))
        for dim in range(x.dim() - 1):
            rules.one_or(f"{name}.size({dim})", coefficients.size(dim), f"input.size({dim})", x.size(dim))
    for dim in range(x.dim()):
        rules.equal(f"r2.size({dim})", r2.size(dim), f"r1.size({dim})", r1.size(dim))
    # In the words of torch_npu, which its own tests ask for.
    words = f"The rotary_mode of npu_rotary_mul should be {' or '.join(modes())}, but got"
    rules.require(rotary_mode in modes(), lambda: f"{words} {rotary_mode!r}")
    if rules.chip is ASCEND_950:
        rules.require(rotate is None, lambda: "rotate must be None on Ascend 950, got a tensor")
        return Plan((Result(tuple(x.shape), x.dtype),))
    layouts = LAYOUTS[x.dim()][rotary_mode]
    if rotate is not None:
        _check_matrix(rules, x, rotate)
        layouts += ((1, 2),) if rotary_mode == HALF else ()
    check_layout(rules, x, r1, layouts)
    if rotate is None and rotary_mode == HALF and x.dim() == 4:
        _check_heads_before_positions(rules, x, r1)
    return Plan((Result(tuple(x.shape), x.dtype),))


def _check_heads_before_positions(rules: Rules, x: Tensor, r1: Tensor) -> None:
    """Refuse layout BNSD of many heads, as the tiling does, which asks for small operators instead.

    Half of a row fills whole blocks of 32 bytes, or it does not, and is then copied element by element.
    """
    batch, heads, positions, width = x.shape
    other_layout = sym_or(batch == r1.size(0), heads == r1.size(1), sym_and(*(size == 1 for size in r1.shape[:3])))
    many = f"batch * heads, {batch * heads}, must be at most"
    aligned = width % (2 * _BLOCK // x.dtype.itemsize) == 0
    few = batch * heads <= 8 * positions
    rules.require(
        sym_or(other_layout, torch.sym_not(aligned), few),
        lambda: f"input in layout (batch, heads, positions, width): {many} 8 * positions, got {positions} positions",
        TILING_ERROR,
    )
    per_core = (positions + _FEWEST_CORES - 1) // _FEWEST_CORES
    rules.require(
        sym_or(other_layout, aligned, width >= _LEAST_UNALIGNED, 2 * batch * heads <= per_core),
        lambda: (
            f"input in layout (batch, heads, positions, width) must have a width of at least {_LEAST_UNALIGNED}, or of "
            f"whole blocks of {_BLOCK} bytes in each half, got {width}"
        ),
        TILING_ERROR,
    )


def check_width(rules: Rules, x: Tensor, rotary_mode: str) -> None:
    """The last dimension of ``x`` consists of pairs, and is not too wide."""
    width, widest = x.size(-1), WIDEST_950 if rules.chip is ASCEND_950 else WIDEST
    rules.require(width % 2 == 0, lambda: f"input.size(-1) must be even, got {width}")
    if rotary_mode == QUARTER:
        rules.require(width % 4 == 0, lambda: f"input.size(-1) must be a multiple of 4 in mode quarter, got {width}")
    rules.require(width <= widest, lambda: f"input.size(-1) must be at most {widest}, got {width}")


def check_layout(rules: Rules, x: Tensor, r1: Tensor, layouts: Layouts) -> None:
    """``r1`` is laid out as one of ``layouts``."""
    rules.require(
        sym_or(*(_has(r1, x, kept) for kept in layouts)),
        lambda: f"r1.size must be one of {', '.join(_sizes(x, kept) for kept in layouts)}, got {list(r1.shape)}",
    )


def _has(r1: Tensor, x: Tensor, kept: Sequence[int]) -> Condition:
    sizes = range(x.dim() - 1)
    condition: Condition = sym_and(*(r1.size(dim) == (x.size(dim) if dim in kept else 1) for dim in sizes))
    return condition


def _sizes(x: Tensor, kept: Sequence[int]) -> str:
    return str([x.size(dim) if dim in (*kept, x.dim() - 1) else 1 for dim in range(x.dim())])


def _check_matrix(rules: Rules, x: Tensor, rotate: Tensor) -> None:
    rules.rank("input", x, 4, why=" beside rotate")
    rules.dtype("rotate", rotate, (x.dtype,), ", the dtype of input")
    rules.rank("rotate", rotate, 2)
    for dim in range(2):
        rules.equal(f"rotate.size({dim})", rotate.size(dim), "input.size(-1)", x.size(-1))
