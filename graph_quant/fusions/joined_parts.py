"""Parts that are copied one by one into an empty tensor become one concatenation, as keys of latent attention are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.fx.experimental.symbolic_shapes import statically_known_true

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers

if TYPE_CHECKING:
    from torch.fx import Node

_SCATTER = aten.slice_scatter.default
_EMPTY = (aten.new_empty.default, aten.empty.memory_format, aten.empty_like.default)


def _patterns() -> Alternatives:
    arguments = [leaf(name) for name in ("dim", "start", "end")]
    part = call(aten.copy.default, leaf("before"), leaf("part"))
    return [call(_SCATTER, leaf("whole"), part, *arguments)]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    dim, chain = leaves["dim"], _chain(root)
    is_last = not any(_SCATTER is reader.target and reader.args[0] is root for reader in readers(root))
    if not is_last or chain[0].all_input_nodes[0].target not in _EMPTY:
        return False
    parts: list[Node] = []
    end: Any = 0
    for node in chain:
        copy, own_dim, start, own_end = _arguments(node)
        if copy.target is not aten.copy.default or own_dim != dim:
            raise NotFusedError("not every part is copied along the same dimension")
        if not statically_known_true(start == end):
            raise NotFusedError("the parts are not neighbours in their order")
        part: Any = copy.args[1]
        if part.meta["val"].dtype != root.meta["val"].dtype:
            raise NotFusedError(f"a part is {part.meta['val'].dtype}, not {root.meta['val'].dtype}")
        sizes = zip(part.meta["val"].shape, copy.meta["val"].shape, strict=False)
        if part.meta["val"].dim() != copy.meta["val"].dim() or not all(
            statically_known_true(one == other) for one, other in sizes
        ):
            raise NotFusedError("a part is broadcast")
        parts.append(part)
        end = own_end
    if not _reaches(end, root.meta["val"].shape[dim]):
        raise NotFusedError("the parts do not fill the tensor")
    with rewriter.before(root, root):
        rewriter.replace(root, rewriter.call(aten.cat.default, parts, dim))
    return True


def _chain(root: Node) -> list[Node]:
    """The copies into one tensor, the first one first."""
    chain = [root]
    while (whole := chain[0].all_input_nodes[0]).target is _SCATTER:
        chain.insert(0, whole)
    return chain


def _arguments(node: Node) -> tuple[Node, Any, Any, Any]:
    """The copy, the dimension, the start and the end."""
    defaults: list[Any] = [None, None, 0, None, None]
    _, copy, dim, start, end = [*node.args, *defaults[len(node.args) :]][:5]
    return copy, dim, start or 0, end  # type: ignore[return-value]


def _reaches(end: Any, size: Any) -> bool:
    return end is None or (not hasattr(end, "meta") and statically_known_true(end >= size))


FUSION = Fusion("joined_parts", None, _patterns, _rewrite, "Results keep every bit.", 0.0)
