"""``silu(gate) * up`` of two halves of one tensor becomes npu_swiglu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion, NotFusedError
from .rewriter import Part, Rewriter, part_of_last

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    return either(aten.mul.Tensor, [call(aten.silu.default, leaf("gate"))], [leaf("up")])


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    gate, up = part_of_last(leaves["gate"]), part_of_last(leaves["up"])
    if gate is None or up is None or gate.source is not up.source:
        raise NotFusedError(
            "gate and up are not the halves of one tensor: graph_quant.nn.merge_linears_ joins the two linears"
        )
    source, half = gate.source, gate.size
    is_halves = (gate, up) == (Part(source, 0, half, 1), Part(source, half, half, 1))
    if not is_halves or source.meta["val"].size(-1) != 2 * half:
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
