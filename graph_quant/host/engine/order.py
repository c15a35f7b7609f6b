"""The nodes that a graph's outputs need, each after what it depends on."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import GraphError
from .nodes import GeNode

OUTPUT = "NetOutput"
DATA_TYPES = ("Data", "RefData")


def execution_order(graph: str, nodes: Sequence[GeNode]) -> list[GeNode]:
    """Nodes behind the outputs, by data or control, in file order as far as dependencies allow."""
    by_name = {node.name: node for node in nodes}
    needed = _needed(graph, nodes, by_name)
    ordered: list[GeNode] = []
    state: dict[str, bool] = {}
    for root in nodes:
        stack = [(root.name, False)] if root.name in needed else []
        while stack:
            name, expanded = stack.pop()
            if expanded:
                state[name] = True
                ordered.append(by_name[name])
                continue
            if name in state:
                if not state[name]:
                    raise GraphError(f"{graph}: {by_name[name].describe()} depends on itself")
                continue
            state[name] = False
            stack.append((name, True))
            waiting = [source for source in _sources(by_name[name]) if not state.get(source)]
            stack.extend((source, False) for source in reversed(waiting))
    return ordered


def _needed(graph: str, nodes: Sequence[GeNode], by_name: dict[str, GeNode]) -> set[str]:
    frontier = [node.name for node in nodes if node.type == OUTPUT]
    if not frontier:
        raise GraphError(f"{graph}: it has no {OUTPUT} node")
    if len(frontier) > 1:
        raise GraphError(f"{graph}: it has {len(frontier)} {OUTPUT} nodes, {', '.join(frontier[:4])}; one is allowed")
    needed = set(frontier)
    while frontier:
        node = by_name[frontier.pop()]
        for source in _sources(node):
            if source not in by_name:
                raise GraphError(
                    f"{graph}: {node.describe()} takes an input from {source!r}, which is not in the graph"
                )
            if source not in needed:
                needed.add(source)
                frontier.append(source)
    return needed


def _sources(node: GeNode) -> list[str]:
    return [*(edge.node for edge in node.inputs.values()), *node.controls]
