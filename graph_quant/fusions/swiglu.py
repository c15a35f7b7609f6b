"""``silu(gate) * up`` of two halves of one tensor becomes npu_swiglu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion
from .rewriter import Rewriter, halves_of_last

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    return either(aten.mul.Tensor, [call(aten.silu.default, leaf("gate"))], [leaf("up")])


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    source = halves_of_last(leaves["gate"], leaves["up"])
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
