"""Dead-code elimination: drops pure nodes that no output and no control edge depends on."""

from __future__ import annotations

from ..ge import INPUT_TYPES
from .graph import Graph
from .purity import PURE_TYPES


def run(graph: Graph) -> None:
    """Drop pure nodes that nothing depends on. Inputs stay, because callers pass them by position."""
    droppable = PURE_TYPES - INPUT_TYPES
    waiting = [op.name for op in graph.ops.values() if op.type not in droppable]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(reference.rpartition(":")[0] for reference in graph.ops[name].input if reference)
    graph.drop(graph.ops.keys() - needed)
