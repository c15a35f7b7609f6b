"""What the passes over a graph leave as it is, though it looks needless, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge import LOSSLESS_CASTS, TRANSPOSE_ATTRIBUTES, Node
from .apply_passes import held
from .lint import Severity, rule

if TYPE_CHECKING:
    from ..dump import Dump


@rule(
    "kept-node",
    Severity.NOTE,
    why="the passes take out what undoes itself, and put transposes into products, where every bit and order stays",
    way_out="compute in one dtype from end to end, exchange the last two axes alone, or order fewer calls by hand, "
    "if the model allows it",
)
def kept_nodes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Casts and transposes that no pass can take out, and nodes that only a control edge keeps."""
    ordered = held(dump)
    for node in dump.order:
        message = _rounded(dump, node) if node.type == "Cast" else _in_other_order(dump, node)
        if message:
            yield node.name, message
        elif node.name in ordered:
            yield node.name, f"computes nothing new and stays, for {ordered[node.name]}: passes keep the order of nodes"


def _rounded(dump: Dump, node: Node) -> str | None:
    """A cast back after one that rounds."""
    before = _maker(dump, node)
    origin = None if before is None or before.type != "Cast" else _maker(dump, before)
    if before is None or origin is None:
        return None
    middle, result = (_dtype(dump, each.name) for each in (before, node))
    if middle is None or result is None or _dtype(dump, origin.name, before.inputs[0].output) != result:
        return None
    if middle == result or middle in LOSSLESS_CASTS.get(result, ()):
        return None
    return f"casts back to {result} what {before.name} rounded to {middle}: without the two, other bits"


def _in_other_order(dump: Dump, node: Node) -> str | None:
    """A transpose of more than the last two axes before a product."""
    if node.type != "Transpose" or len(node.inputs) < 2:
        return None
    axes = dump.inference.values.get(node.inputs[1].node)
    readers = [
        each.name for each, place in dump.consumers[node.name] if place in TRANSPOSE_ATTRIBUTES.get(each.type, {})
    ]
    if not axes or not readers or list(axes) == [*range(len(axes) - 2), len(axes) - 1, len(axes) - 2]:
        return None
    return f"gives the axes in the order {list(axes)}: {readers[0]} can exchange the last two alone"


def _maker(dump: Dump, node: Node) -> Node | None:
    return dump.nodes[node.inputs[0].node] if node.inputs and node.inputs[0].node else None


def _dtype(dump: Dump, name: str, output: int = 0) -> str | None:
    types = dump.inference.types[name]
    return types[output].dtype if output < len(types) else None
