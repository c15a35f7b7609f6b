"""Several npu_quantize of one tensor with the same scales become one, as ``common_dynamic_quant`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .common_dynamic_quant import VIEW, quantisations
from .patterns import Alternatives, call, leaf
from .record import Fusion
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node

_QUANTIZE = torch.ops.npu.npu_quantize.default
_OPTIONS = ("axis", "div_mode")


def quantize_patterns(x: Any) -> Alternatives:
    """npu_quantize of ``x``, with its last arguments or without."""
    arguments = [leaf(name) for name in ("scales", "zero_points", "dtype")]
    options = [leaf(name) for name in _OPTIONS]
    return [call(_QUANTIZE, x, *arguments, *options[:count]) for count in range(len(options) + 1)]


def _patterns() -> Alternatives:
    return quantize_patterns(leaf("x"))


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x = leaves["x"].args[0] if leaves["x"].target is VIEW else leaves["x"]
    later = [
        node
        for node, _ in quantisations(x, _QUANTIZE)
        if rewriter.order[node] > rewriter.order[root]
        and node.users
        and node.meta["val"].shape == root.meta["val"].shape
        and (node.args[1:], node.kwargs) == (root.args[1:], root.kwargs)
    ]
    for node in later:
        rewriter.replace(node, root)
    return bool(later)


FUSION = Fusion("common_quantize", "npu_quantize", _patterns, _rewrite, "Results keep every bit.", 0.0)
