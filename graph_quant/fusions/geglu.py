"""``gelu(gate) * up`` of two halves of one tensor becomes npu_geglu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion
from .rewriter import Rewriter, halves_of_last

if TYPE_CHECKING:
    from torch.fx import Node

_APPROXIMATIONS = {"none": 0, "tanh": 1}


def _patterns() -> Alternatives:
    return either(aten.mul.Tensor, [call(aten.gelu.default, leaf("gate"))], [leaf("up")])


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    source = halves_of_last(leaves["gate"], leaves["up"])
    gelu = next(node for node in root.all_input_nodes if node.target is aten.gelu.default)
    approximation = _APPROXIMATIONS[str(gelu.kwargs.get("approximate", "none"))]
    with rewriter.before(root, root):
        gated = rewriter.call(torch.ops.npu.npu_geglu.default, source, -1, approximation, True)
        rewriter.replace(root, rewriter.result(gated, 0))
    return True


FUSION = Fusion(
    "geglu",
    "npu_geglu",
    _patterns,
    _rewrite,
    "gelu is not rounded before the product.",
    2**-6,
)
