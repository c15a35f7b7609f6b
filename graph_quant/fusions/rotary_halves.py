"""``cat(a * cos - b * sin, b * cos + a * sin)`` of two parts of one tensor becomes npu_rotary_mul.

The parts are the halves, as in gpt-oss, or the even and odd channels, as in DeepSeek-V3, which npu_interleave_rope
reads. Cosines and sines have half the channels, and are repeated for the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Part, Rewriter, part_of_last

if TYPE_CHECKING:
    from torch.fx import Node

_UNSQUEEZE = aten.unsqueeze.default


def _patterns() -> Alternatives:
    first, second, cos, sin = (leaf(name) for name in ("first", "second", "cos", "sin"))
    low = call(aten.sub.Tensor, call(aten.mul.Tensor, first, cos), call(aten.mul.Tensor, second, sin))
    terms = call(aten.mul.Tensor, second, cos), call(aten.mul.Tensor, first, sin)
    return [call(aten.cat.default, [low, call(aten.add.Tensor, *order)], leaf("dim")) for order in (terms, terms[::-1])]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    rank = root.meta["val"].dim()
    if leaves["dim"] % rank != rank - 1:
        raise NotFusedError("the parts are not concatenated along the last dimension")
    first, second = part_of_last(leaves["first"]), part_of_last(leaves["second"])
    if first is None or second is None or first.source is not second.source:
        raise NotFusedError("the parts are not of one tensor")
    x, half = first.source, root.meta["val"].size(-1) // 2
    is_halves = (first, second) == (Part(x, 0, half, 1), Part(x, half, half, 1))
    is_pairs = (first, second) == (Part(x, 0, half, 2), Part(x, 1, half, 2))
    if not (is_halves or is_pairs) or x.meta["val"].size(-1) != 2 * half:
        raise NotFusedError(f"the parts are neither the halves nor the pairs of {x.meta['val'].size(-1)} channels")
    with rewriter.before(root, root):
        cos, sin = (_repeat(rewriter, leaves[name]) for name in ("cos", "sin"))
        if is_halves:
            new = rewriter.call(torch.ops.npu.npu_rotary_mul.default, x, cos, sin)
        else:
            tables = [rewriter.expand_batch(table, x) for table in (cos, sin)]
            new = rewriter.call(torch.ops.npu.npu_interleave_rope.default, x, *tables)
        rewriter.replace(root, new)
    return True


def _repeat(rewriter: Rewriter, table: Node) -> Node:
    """The table for both parts; dimensions that were inserted into it stay last, for ``attention_layout``."""
    if table.target is _UNSQUEEZE and table.args[1] == 1 and table.meta["val"].dim() > 2:
        whole = rewriter.call(aten.cat.default, [table.args[0], table.args[0]], -1)
        return rewriter.call(_UNSQUEEZE, whole, 1)
    return rewriter.call(aten.cat.default, [table, table], -1)


FUSION = Fusion(
    "rotary_halves",
    "npu_rotary_mul",
    _patterns,
    _rewrite,
    "Products and their sum are rounded once; the plain form rounds each of the three.",
    2**-6,
)
