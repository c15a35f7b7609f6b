"""Pointwise operators between two flattened tensors work on the flattened rows, so that reshapes around them go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node

_VIEW = aten.view.default
_POINTWISE = (aten.mul.Tensor, aten.add.Tensor, aten.silu.default, aten.gelu.default)


def _patterns() -> Alternatives:
    return [call(_VIEW, leaf("x"), leaf("shape"))]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x, shape = leaves["x"], tuple(root.meta["val"].shape)
    if len(shape) != 2 or x.target not in _POINTWISE or not _can_flatten(x, shape):
        return False
    with rewriter.before(root, x):
        rewriter.replace(root, _flatten(rewriter, x, shape))
    return True


def _can_flatten(node: Any, shape: tuple[Any, ...]) -> bool:
    """Whether ``node`` is computed pointwise, for one reader, from views of rows of ``shape`` and numbers."""
    if not isinstance(node, torch.fx.Node):
        return isinstance(node, (int, float, str))
    if node.target is _VIEW:
        return tuple(node.args[0].meta["val"].shape) == shape  # type: ignore[union-attr]
    if node.target not in _POINTWISE or len(node.users) != 1:
        return False
    return all(_can_flatten(argument, shape) for argument in (*node.args, *node.kwargs.values()))


def _flatten(rewriter: Rewriter, node: Any, shape: tuple[Any, ...]) -> Any:
    if not isinstance(node, torch.fx.Node):
        return node
    if node.target is _VIEW:
        return node.args[0]
    arguments = [_flatten(rewriter, argument, shape) for argument in node.args]
    return rewriter.call(node.target, *arguments, **node.kwargs)


FUSION = Fusion("pointwise_rows", None, _patterns, _rewrite, "Results keep every bit.", 0.0)
