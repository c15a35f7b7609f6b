"""A view of rows that only undoes another view is the rows themselves, also where their number is dynamic.

Residuals are viewed with batch and tokens at the end of a block, and as rows again by the next fused norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.fx.experimental.symbolic_shapes import statically_known_true

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node

_VIEWS = [aten.view.default, aten._unsafe_view.default, aten.reshape.default]


def _patterns() -> Alternatives:
    return [call(_VIEWS, call(_VIEWS, leaf("x"), leaf("inner")), leaf("outer"))]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x, value = leaves["x"], root.meta["val"]
    rows = x.meta["val"]
    # A tensor of as many elements with as many columns has as many rows.
    if not rows.dim() == value.dim() == 2 or not statically_known_true(rows.size(1) == value.size(1)):
        return False
    rewriter.replace(root, x)
    return True


FUSION = Fusion("row_views", None, _patterns, _rewrite, "Results keep every bit.", 0.0)
