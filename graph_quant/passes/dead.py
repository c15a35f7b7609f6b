"""Nodes that nothing needs: no output, no control edge, and no node that may do something for others to see."""

from __future__ import annotations

from ..ge import CONST_TYPES, INPUT_TYPES
from .graph import Graph
from .known import TOLD


def run(graph: Graph) -> None:
    """Drop computations without readers. Inputs stay, whose places are counted, and every type that is not known."""
    droppable = (TOLD.keys() | CONST_TYPES) - INPUT_TYPES
    waiting = [op.name for op in graph.ops.values() if op.type not in droppable]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(reference.rpartition(":")[0] for reference in graph.ops[name].input if reference)
    graph.drop(graph.ops.keys() - needed)
