"""``x * cos + rotate_half(x) * sin`` becomes npu_rotary_mul, for halves and for interleaved pairs."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node


def _halves(x: Any) -> Alternatives:
    """The two halves of ``x`` exchanged, the first of them negative."""
    low = call(aten.slice.Tensor, x, leaf("low_dim"), 0, leaf("low_end"))
    high = call(aten.slice.Tensor, x, leaf("high_dim"), leaf("high_start"), leaf("high_end"))
    parts = call(aten.split.Tensor, x, leaf("half"), leaf("split_dim"))
    sized = call(aten.split_with_sizes.default, x, leaf("halves"), leaf("split_dim"))
    pairs = [(high, low)]
    pairs += [(call(operator.getitem, split, 1), call(operator.getitem, split, 0)) for split in (parts, sized)]
    return [call(aten.cat.default, [call(aten.neg.default, second), first], leaf("dim")) for second, first in pairs]


def _patterns() -> Alternatives:
    x = leaf("x")
    plain = either(aten.mul.Tensor, [x], [leaf("cos")])
    rotated = either(aten.mul.Tensor, _halves(x), [leaf("sin")])
    return either(aten.add.Tensor, plain, rotated)


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    value = leaves["x"].meta["val"]
    last, half = value.dim() - 1, value.size(-1) // 2
    dims = [leaves[name] for name in ("dim", "low_dim", "high_dim", "split_dim") if name in leaves]
    if any(dim % value.dim() != last for dim in dims):
        raise NotFusedError("the halves are not of the last dimension")
    sizes = [leaves[name] for name in ("low_end", "high_start", "half") if name in leaves]
    sizes += leaves.get("halves", [])
    if value.size(-1) % 2 or any(size != half for size in sizes) or leaves.get("high_end", half * 2) < half * 2:
        raise NotFusedError(f"the parts are not the halves of {value.size(-1)} channels")
    if not all(isinstance(leaves[name], torch.fx.Node) for name in ("cos", "sin")):
        raise NotFusedError("cosines or sines are a number")
    with rewriter.before(root, root):
        rewriter.replace(
            root, rewriter.call(torch.ops.npu.npu_rotary_mul.default, leaves["x"], leaves["cos"], leaves["sin"])
        )
    return True


FUSION = Fusion(
    "rotary_mul",
    "npu_rotary_mul",
    _patterns,
    _rewrite,
    "Products and their sum are rounded once; the plain form rounds each of the three.",
    2**-6,
)
