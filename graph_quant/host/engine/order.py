"""The nodes that a graph's outputs need, each after what it depends on."""

from __future__ import annotations

from collections.abc import Sequence

from ...ge import OUTPUT_TYPE, Node
from .errors import GraphError

# Nodes without outputs, which run for what others see of them.
_SEEN_ELSEWHERE = frozenset({"HcomSend"})


def execution_order(graph: str, nodes: Sequence[Node]) -> list[Node]:
    """Nodes behind the outputs, by data or control, in file order as far as dependencies allow."""
    by_name = {node.name: node for node in nodes}
    if len(by_name) < len(nodes):
        twice = next(node.name for node in nodes if by_name[node.name] is not node)
        raise GraphError(f"{graph}: two nodes are named {twice!r}")
    needed = _needed(graph, nodes, by_name)
    ordered: list[Node] = []
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
            waiting = [source for source in by_name[name].producers if not state.get(source)]
            stack.extend((source, False) for source in reversed(waiting))
    return ordered


def _needed(graph: str, nodes: Sequence[Node], by_name: dict[str, Node]) -> set[str]:
    frontier = [node.name for node in nodes if node.type == OUTPUT_TYPE]
    if not frontier:
        raise GraphError(f"{graph}: it has no {OUTPUT_TYPE} node")
    if len(frontier) > 1:
        raise GraphError(
            f"{graph}: it has {len(frontier)} {OUTPUT_TYPE} nodes, {', '.join(frontier[:4])}; one is allowed"
        )
    frontier += [node.name for node in nodes if node.type in _SEEN_ELSEWHERE]
    needed = set(frontier)
    while frontier:
        node = by_name[frontier.pop()]
        for source in node.producers:
            if source not in by_name:
                raise GraphError(
                    f"{graph}: {node.describe()} takes an input from {source!r}, which is not in the graph"
                )
            if source not in needed:
                needed.add(source)
                frontier.append(source)
    return needed
