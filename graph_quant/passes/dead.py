"""Nodes that no output and no control edge leads to: GE would prune them, too."""

from __future__ import annotations

from ..ge.graph import INPUT_TYPES, OUTPUT_TYPE
from .graph import Graph


def run(graph: Graph) -> None:
    """Keep what the outputs need, and the inputs, whose places are counted."""
    waiting = [op.name for op in graph.ops.values() if op.type == OUTPUT_TYPE or op.type in INPUT_TYPES]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(reference.rpartition(":")[0] for reference in graph.ops[name].input if reference)
    graph.drop(graph.ops.keys() - needed)
