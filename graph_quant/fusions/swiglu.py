"""``silu(gate) * up`` of two halves of one tensor becomes npu_swiglu."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion, NotFusedError
from .rewriter import SPLITS, Rewriter, slice_start

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    return either(aten.mul.Tensor, [call(aten.silu.default, leaf("gate"))], [leaf("up")])


def _part(node: Any) -> tuple[Any, int, int] | None:
    """The tensor that ``node`` is a part of along the last dimension, the start and the size of the part."""
    if not isinstance(node, torch.fx.Node):
        return None
    arguments: Any = node.args
    if node.target is aten.slice.Tensor:
        source, dim, start = arguments[0], -1, slice_start(node, -1)
    elif node.target is operator.getitem and arguments[0].target in SPLITS:
        split = arguments[0]
        source, dim = split.args[0], split.args[2] if len(split.args) > 2 else 0
        start = sum(part.size(dim) for part in split.meta["val"][: arguments[1]])
    else:
        return None
    rank = source.meta["val"].dim()
    if dim % rank != rank - 1 or not isinstance(start, int):
        return None
    return source, start, node.meta["val"].size(-1)


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    gate, up = _part(leaves["gate"]), _part(leaves["up"])
    if gate is None or up is None or gate[0] is not up[0]:
        raise NotFusedError(
            "gate and up are not the halves of one tensor: graph_quant.nn.merge_linears_ joins the two linears"
        )
    source, half = gate[0], gate[2]
    if (gate[1], up[1], up[2]) != (0, half, half) or source.meta["val"].size(-1) != 2 * half:
        raise NotFusedError("gate is not the first half of the tensor, or up not the second one")
    with rewriter.before(root, root):
        rewriter.replace(root, rewriter.call(torch.ops.npu.npu_swiglu.default, source, -1))
    return True


FUSION = Fusion(
    "swiglu",
    "npu_swiglu",
    _patterns,
    _rewrite,
    "silu is not rounded before the product.",
    2**-7,
)
