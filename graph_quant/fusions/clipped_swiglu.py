"""gpt-oss's gate, ``(clamp(up) + bias) * min(gate, limit) * sigmoid(alpha * gate)``, becomes npu_clipped_swiglu.

Gate and up are the even and odd channels of one tensor, or its halves.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion, NotFusedError
from .rewriter import Part, Rewriter, part_of_last

if TYPE_CHECKING:
    from torch.fx import Node

_PAIRS, _HALVES = True, False


def _patterns() -> Alternatives:
    gate = call(aten.clamp.default, leaf("gate"), None, leaf("limit"))
    up = call(aten.clamp.default, leaf("up"), leaf("lowest"), leaf("highest"))
    scaled = call(aten.sigmoid.default, call(aten.mul.Tensor, gate, leaf("alpha")))
    swish = either(aten.mul.Tensor, [gate], [scaled])
    shifted = call(aten.add.Tensor, up, leaf("bias"))
    pairs = [pair for one in product([shifted], swish) for pair in (one, one[::-1])]
    return [call(aten.mul.Tensor, *pair) for pair in pairs]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    numbers = {name: leaves[name] for name in ("limit", "lowest", "highest", "alpha", "bias")}
    if not all(isinstance(number, (int, float)) for number in numbers.values()):
        raise NotFusedError("the limits, alpha or the bias are tensors")
    limit, lowest, highest = (numbers[name] for name in ("limit", "lowest", "highest"))
    if (lowest, highest) != (-limit, limit):
        raise NotFusedError(
            f"up is clamped to {lowest} and {highest}, gate to {limit}: the operator has one limit for both"
        )
    source, is_interleaved = _source(leaves["gate"], leaves["up"])
    options = {name: float(numbers[name]) for name in ("alpha", "limit", "bias")}
    with rewriter.before(root, root):
        fused = rewriter.call(
            torch.ops.npu.npu_clipped_swiglu.default, source, dim=-1, interleaved=is_interleaved, **options
        )
        rewriter.replace(root, fused)
    return True


def _source(gate: Node, up: Node) -> tuple[Node, bool]:
    """The tensor that gate and up are parts of, and whether they are its even and odd channels."""
    first, second = part_of_last(gate), part_of_last(up)
    if first is None or second is None:
        raise NotFusedError("gate and up are not parts of one tensor")
    x, half = first.source, first.size
    if x.meta["val"].size(-1) == 2 * half:
        if (first, second) == (Part(x, 0, half, 2), Part(x, 1, half, 2)):
            return x, _PAIRS
        if (first, second) == (Part(x, 0, half, 1), Part(x, half, half, 1)):
            return x, _HALVES
    raise NotFusedError("gate and up are neither the halves nor the even and odd channels of one tensor")


FUSION = Fusion(
    "clipped_swiglu",
    "npu_clipped_swiglu",
    _patterns,
    _rewrite,
    "Gates are computed in float32 and rounded once; the plain form rounds each step.",
    2**-6,
)
