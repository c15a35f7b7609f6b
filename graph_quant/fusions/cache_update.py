"""``index_copy`` at neighbouring positions, as a StaticCache is updated, becomes scatter_update.

index_copy is lowered to ScatterElements, which reads a position for each element; scatter_update reads one for each
batch, and TorchAir writes the cache in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, require_rows

if TYPE_CHECKING:
    from torch.fx import Node

_RANGES = (aten.arange.default, aten.arange.start, aten.arange.start_step)


def _patterns() -> Alternatives:
    return [call(aten.index_copy.default, leaf("cache"), leaf("dim"), leaf("index"), leaf("source"))]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    cache, dim, index, source = (leaves[name] for name in ("cache", "dim", "index", "source"))
    value = cache.meta["val"]
    if value.dim() < 2 or dim % value.dim() == 0:
        raise NotFusedError(f"it copies to positions of dimension {dim}, the batch")
    require_rows(source)
    start = _start(index)
    if start is None:
        raise NotFusedError("the positions are not known to be neighbours: they are no arange plus a start")
    # index_copy leaves the batch alone, so that the source has every batch of the cache.
    with rewriter.before(root, root):
        if start.meta["val"].dim() != 1:
            start = rewriter.call(aten.reshape.default, start, [1])
        starts = rewriter.expand_batch(start, source)
        fused = rewriter.call(torch.ops.npu.scatter_update.default, cache, starts, source, dim)
        rewriter.replace(root, fused)
    return True


def _start(index: Node) -> Node | None:
    """The first position, one element, if the others follow it."""
    start = _start_of_range(index)
    return index if start is None and statically_known_true(index.meta["val"].numel() == 1) else start


def _start_of_range(index: Node) -> Node | None:
    """The start of ``arange(n) + start``."""
    if index.target is not aten.add.Tensor or index.kwargs:
        return None
    for positions, start in (index.args, index.args[::-1]):
        is_one = isinstance(start, torch.fx.Node) and statically_known_true(start.meta["val"].numel() == 1)
        if is_one and _counts_from_zero(positions) and start.meta["val"].dtype == index.meta["val"].dtype:  # type: ignore[union-attr]
            return start  # type: ignore[return-value]
    return None


def _counts_from_zero(node: Any) -> bool:
    if not isinstance(node, torch.fx.Node) or node.target not in _RANGES:
        return False
    # arange(end), arange(start, end) or arange(start, end, step)
    first, step = (node.args[0], *node.args[2:], 1)[:2] if len(node.args) > 1 else (0, 1)
    return isinstance(first, int) and isinstance(step, int) and first == 0 and step == 1


FUSION = Fusion("cache_update", "scatter_update", _patterns, _rewrite, "Results keep every bit.", 0.0)
