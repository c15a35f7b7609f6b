"""Equal computations once: nodes without side effects, of one type, with the same inputs and attributes."""

from __future__ import annotations

from typing import Any

from ..ge import CONST_TYPES
from .graph import Graph
from .known import TOLD

Key = tuple[str, tuple[str, ...], tuple[tuple[str, bytes], ...]]


def run(graph: Graph) -> None:
    """Let readers of equal results read the first. Producers stand before their readers, so one walk is enough."""
    first: dict[Key, str] = {}
    for op in graph.of_type(*(TOLD.keys() - CONST_TYPES)):
        kept = first.setdefault(_key(op), op.name)
        if kept != op.name:
            for place in range(len(op.output_desc)):
                graph.replace(f"{op.name}:{place}", f"{kept}:{place}")


def _key(op: Any) -> Key:
    attributes = tuple((name, op.attr[name].SerializeToString(deterministic=True)) for name in sorted(op.attr))
    return op.type, tuple(op.input), attributes
