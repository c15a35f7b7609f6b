"""Lint rule for nodes that look redundant but that no pass may remove."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge import LOSSLESS_CASTS, TRANSPOSE_ATTRIBUTES, Node
from .apply_passes import find_held_nodes
from .lint import Severity, lint_rule

if TYPE_CHECKING:
    from ..dump import Dump


@lint_rule(
    "kept-node",
    Severity.NOTE,
    why="passes remove nodes that cancel out and fold transposes into products only if results and order do not change",
    fix="compute in one dtype from end to end, exchange the last two axes alone, or order fewer calls by hand, "
    "if the model allows it",
)
def find_kept_nodes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Casts and transposes that no pass can remove, and nodes that only a control edge keeps."""
    ordered = find_held_nodes(dump)
    for node in dump.order:
        message = _describe_rounding_cast(dump, node) if node.type == "Cast" else _describe_transpose(dump, node)
        if message:
            yield node.name, message
        elif node.name in ordered:
            yield node.name, f"computes nothing new and stays, for {ordered[node.name]}: passes keep the order of nodes"


def _describe_rounding_cast(dump: Dump, node: Node) -> str | None:
    """A cast back to the original dtype after a cast that rounds."""
    before = _producer(dump, node)
    origin = None if before is None or before.type != "Cast" else _producer(dump, before)
    if before is None or origin is None:
        return None
    middle, result = (_output_dtype(dump, cast.name) for cast in (before, node))
    if middle is None or result is None or _output_dtype(dump, origin.name, before.inputs[0].output) != result:
        return None
    if middle == result or middle in LOSSLESS_CASTS.get(result, ()):
        return None
    return f"casts back to {result} what {before.name} rounded to {middle}: without the two, other bits"


def _describe_transpose(dump: Dump, node: Node) -> str | None:
    """A transpose of more than the last two axes before a product."""
    if node.type != "Transpose" or len(node.inputs) < 2:
        return None
    axes = dump.inference.values.get(node.inputs[1].node)
    readers = [
        reader.name
        for reader, position in dump.consumers[node.name]
        if position in TRANSPOSE_ATTRIBUTES.get(reader.type, {})
    ]
    if not axes or not readers or list(axes) == [*range(len(axes) - 2), len(axes) - 1, len(axes) - 2]:
        return None
    return f"gives the axes in the order {list(axes)}: {readers[0]} can exchange the last two alone"


def _producer(dump: Dump, node: Node) -> Node | None:
    return dump.nodes[node.inputs[0].node] if node.inputs and node.inputs[0].node else None


def _output_dtype(dump: Dump, name: str, output: int = 0) -> str | None:
    types = dump.inference.types[name]
    return types[output].dtype if output < len(types) else None
