"""Common-subexpression elimination: pure nodes of one type with the same inputs and attributes are computed once."""

from __future__ import annotations

from typing import Any

from ..ge import CONST_TYPES
from .graph import Graph
from .purity import PURE_TYPES

Key = tuple[str, tuple[str, ...], tuple[tuple[str, bytes], ...]]


def run(graph: Graph) -> None:
    """Let readers of equal results read the first. Producers precede their readers, so one walk is enough."""
    first: dict[Key, str] = {}
    for op in graph.nodes_of_type(*(PURE_TYPES - CONST_TYPES)):
        kept = first.setdefault(_key(op), op.name)
        if kept != op.name:
            for index in range(len(op.output_desc)):
                graph.replace(f"{op.name}:{index}", f"{kept}:{index}")


def _key(op: Any) -> Key:
    attributes = tuple((name, op.attr[name].SerializeToString(deterministic=True)) for name in sorted(op.attr))
    return op.type, tuple(op.input), attributes
