"""Several npu_dynamic_quant of one tensor become one: query, key and value, or gate and up, share their input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, call, leaf
from .record import Fusion
from .rewriter import Rewriter, readers

if TYPE_CHECKING:
    from torch.fx import Node

VIEW = torch.ops.aten.view.default


_DYNAMIC = torch.ops.npu.npu_dynamic_quant.default


def quantisations(x: Node, target: Any) -> list[tuple[Node, Node | None]]:
    """Each call of ``target`` that reads ``x``, directly or through a view, and the view."""
    direct: list[tuple[Node, Node | None]] = [(node, None) for node in readers(x) if node.target is target]
    views = [node for node in readers(x) if node.target is VIEW]
    return direct + [(node, view) for view in views for node in readers(view) if node.target is target]


def _patterns() -> Alternatives:
    return [call(_DYNAMIC, leaf("x"))]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x = leaves["x"].args[0] if leaves["x"].target is VIEW else leaves["x"]
    shape, options = leaves["x"].meta["val"].shape, (root.args[1:], root.kwargs)
    later = [
        node
        for node, _ in quantisations(x, _DYNAMIC)
        if rewriter.order[node] > rewriter.order[root]
        and any(map(readers, readers(node)))
        and node.args[0].meta["val"].shape == shape  # type: ignore[union-attr]
        and (node.args[1:], node.kwargs) == options
    ]
    if not later or not any(map(readers, readers(root))):
        return False
    results = {node.args[1]: node for node in readers(root)}
    for result in [result for node in later for result in readers(node)]:
        index: Any = result.args[1]
        if index not in results:
            with rewriter.after(root):
                results[index] = rewriter.result(root, index)
        rewriter.replace(result, results[index])
    return True


FUSION = Fusion(
    "common_dynamic_quant",
    "npu_dynamic_quant",
    _patterns,
    _rewrite,
    "Results keep every bit.",
    0.0,
)
