"""Products of one quantised input with weights that are slices of one tensor become one product, and a split of it.

``graph_quant.nn.merge_linears_`` stores weights like that: query, key and value, or gate and up. Where all parts are
heads of one size, the split is along the heads, so that one reshape is left instead of one for each part.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers, slice_start

if TYPE_CHECKING:
    from torch.fx import Node

_PRODUCT = torch.ops.npu.npu_quant_matmul.default
_VIEW = aten.view.default


class _Part(NamedTuple):
    """A product, and what its weight is a slice of."""

    product: Node
    weight: Node
    start: int
    end: int


def _patterns() -> Alternatives:
    return [call(_PRODUCT, leaf("x1"), leaf("x2"), leaf("scale"))]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    siblings = [
        node
        for node in readers(leaves["x1"])
        if node.target is _PRODUCT and node.args[0] is leaves["x1"] and node.users
    ]
    siblings.sort(key=rewriter.order.__getitem__)
    if root is not siblings[0] or len(siblings) == 1:
        return False
    parts = sorted(map(_part, siblings), key=lambda part: part.start)
    merged = parts[0].weight
    if any(part.weight is not merged for part in parts):
        raise NotFusedError(
            f"{len(parts)} products of one input have separate weights: graph_quant.nn.merge_linears_ joins them"
        )
    ends = [0, *(part.end for part in parts)]
    is_whole = statically_known_true(merged.meta["val"].size(0) == ends[-1])
    if [part.start for part in parts] != ends[:-1] or not is_whole:
        raise NotFusedError("the products with one input are not all that the merged weight has")
    with rewriter.before(root, root):
        options = _options(root)
        if any(_options(part.product) != options for part in parts):
            raise NotFusedError("the products have different options")
        scale, bias = _whole("scale", parts, merged), _whole("bias", parts, merged)
        columns = rewriter.call(aten.t.default, merged)
        product = rewriter.call(_PRODUCT, leaves["x1"], columns, scale, bias=bias, **options)
        views = [view for view in map(_heads, parts) if view is not None]
        leading = _leading_sizes(rewriter, views[0], root) if _are_heads_of_one_size(views, len(parts)) else None
        if leading is None:
            replaced = [part.product for part in parts]
            results = _split(rewriter, product, [part.end - part.start for part in parts], -1)
        else:
            replaced, results = views, _split_heads(rewriter, product, views, leading)
        for node, result in zip(replaced, results, strict=True):
            rewriter.replace(node, result)
    return True


def _part(product: Node) -> _Part:
    weight: Any = product.args[1]
    source: Any = weight.args[0] if weight.target is aten.t.default else None
    start = slice_start(source, 0) if isinstance(source, torch.fx.Node) else None
    channels = weight.meta["val"].size(-1)
    if start is None:
        return _Part(product, weight, 0, channels)
    return _Part(product, source.args[0], start, start + channels)


def _options(product: Node) -> dict[str, Any]:
    return {name: value for name, value in product.kwargs.items() if name != "bias" and value is not None}


def _whole(name: str, parts: list[_Part], merged: Node) -> Node | None:
    """The tensor whose slices, at the same positions as the weights, are an argument of the products."""
    values: list[Any] = [part.product.args[2] if name == "scale" else part.product.kwargs.get(name) for part in parts]
    if values == [None] * len(values):
        return None
    whole: Any = values[0].args[0] if values[0] is not None and values[0].args else None
    for part, value in zip(parts, values, strict=True):
        is_slice = value is not None and slice_start(value, 0) == part.start and value.args[0] is whole
        if not is_slice or value.meta["val"].size(0) != part.end - part.start:
            raise NotFusedError(f"{name} of the products is not one tensor with the slices of the weights")
    if whole.meta["val"].dim() != 1 or whole.meta["val"].size(0) != merged.meta["val"].size(0):
        raise NotFusedError(f"{name} is not one value for each channel of the merged weight")
    return whole  # type: ignore[no-any-return]


def _heads(part: _Part) -> Node | None:
    """The only reader of a product behind views, where it divides the channels into heads."""
    node = part.product
    while len(node.users) == 1 and node.meta["val"].dim() < 4:
        (node,) = node.users
        if node.target is not _VIEW:
            return None
    shape = node.meta["val"].shape
    return node if len(shape) == 4 and statically_known_true(shape[2] * shape[3] == part.end - part.start) else None


def _are_heads_of_one_size(views: list[Node], count: int) -> bool:
    shapes = [view.meta["val"].shape for view in views]
    return len(views) == count and all((shape[:2], shape[3]) == (shapes[0][:2], shapes[0][3]) for shape in shapes)


def _leading_sizes(rewriter: Rewriter, view: Node, position: Node) -> list[Any] | None:
    """Batch and tokens as a view has them in its arguments, if they are known at ``position``."""
    sizes: Any = view.args[1]
    for size in sizes[:2]:
        is_known = rewriter.order[size] < rewriter.order[position] if isinstance(size, torch.fx.Node) else size != -1
        if not is_known:
            return None
    return list(sizes[:2])


def _split_heads(rewriter: Rewriter, product: Node, views: list[Node], sizes: list[Any]) -> list[Node]:
    counts = [view.meta["val"].size(2) for view in views]
    heads = rewriter.call(_VIEW, product, [*sizes, sum(counts), views[0].meta["val"].size(3)])
    return _split(rewriter, heads, counts, 2)


def _split(rewriter: Rewriter, node: Node, sizes: list[int], dim: int) -> list[Node]:
    split = rewriter.call(aten.split_with_sizes.default, node, sizes, dim)
    return [rewriter.call(operator.getitem, split, index) for index in range(len(sizes))]


FUSION = Fusion(
    "merged_products",
    "npu_quant_matmul",
    _patterns,
    _rewrite,
    "Results keep every bit.",
    0.0,
)
