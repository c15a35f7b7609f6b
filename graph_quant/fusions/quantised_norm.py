"""What fusions of npu_add_rms_norm with the quantisation of its result share."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .common_dynamic_quant import VIEW
from .patterns import Alternatives, aten, call, leaf
from .record import NotFusedError
from .rewriter import Rewriter, describe_readers, readers, require_rows

if TYPE_CHECKING:
    from torch.fx import Node


def normed_rows() -> Alternatives:
    """Patterns of the result of npu_add_rms_norm, as it is or as a view."""
    norm = call(torch.ops.npu.npu_add_rms_norm.default, leaf("x1"), leaf("x2"), leaf("weight"), leaf("epsilon"))
    y = call(operator.getitem, norm, 0)
    return [y, call(aten.view.default, y, leaf("shape"))]


@dataclass
class QuantisedNorm:
    """npu_add_rms_norm, its result, and the rows of it that are quantised."""

    norm: Any
    y: Node
    rows: Node

    @classmethod
    def before(cls, root: Node) -> QuantisedNorm:
        """What ``root`` quantises; raise NotFusedError where the result in floating point is needed."""
        rows: Any = root.args[0]
        y: Any = rows.args[0] if rows.target is VIEW else rows
        self = cls(y.args[0], y, rows)
        require_rows(y)
        if rows is not y and rows.meta["val"].size(-1) != y.meta["val"].size(-1):
            raise NotFusedError("the quantised rows are not those of the norm")
        others = [node for node in readers(y) if node not in (root, rows)] + [
            node for node in readers(rows) if rows is not y and node is not root
        ]
        if others:
            raise NotFusedError(f"the norm's result is also read by {describe_readers(others)}")
        if any(node.args[1] == 1 and readers(node) for node in readers(self.norm)):
            raise NotFusedError("the root mean square of the norm is also read")
        return self

    def terms(self, rewriter: Rewriter) -> list[Node]:
        """The terms of the sum, flattened as the quantised rows are, so that reshapes between layers cancel."""
        is_flat = self.rows.meta["val"].dim() == 2
        return [rewriter.flatten_rows(term) if is_flat else term for term in self.norm.args[:2]]

    def replace_total(self, rewriter: Rewriter, total: Node) -> None:
        """Let what reads the sum read ``total``."""
        total = rewriter.view_like(total, self.norm.args[0])
        for node in readers(self.norm):
            if node.args[1] == 2:
                rewriter.replace(node, total)
