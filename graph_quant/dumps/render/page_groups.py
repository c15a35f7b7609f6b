"""The nested groups of the page: modules or layers, patterns, and called graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, END_TYPES, INPUT_TYPES, OUTSIDE_TYPES, Node, printable
from ..graph.outline import Item
from .page_nodes import LONGEST

if TYPE_CHECKING:
    from ..dump import Callee, Dump

# Their first input is a weight, the second the indices.
_TABLES = {"Gather", "GatherV2", "GatherNd", "Embedding"}


class Groups:
    """All groups of a dump and of the graphs it calls, parents first; the first contains all."""

    def __init__(self, dump: Dump) -> None:
        self.list: list[dict[str, Any]] = []
        self.inline: set[tuple[int, str]] = set()
        self._of: dict[tuple[int, str], int] = {}
        self._enter(dump, None, dump.name or "graph")
        for graph in dump.uncalled:
            if not self._has(graph):
                self._enter(graph, 0, f"graph {graph.name}")

    def of(self, graph: Dump, node: Node) -> int:
        """The innermost group of a node."""
        return self._of[id(graph), node.name]

    def is_inline(self, graph: Dump, node: Node) -> bool:
        """Whether a constant or weight is shown inside the nodes that read it."""
        return (id(graph), node.name) in self.inline

    def _has(self, graph: Dump) -> bool:
        return (id(graph), graph.order[0].name) in self._of

    def _add(self, label: str, kind: str, parent: int | None, **more: Any) -> int:
        facts = {"label": printable(label, LONGEST), "kind": kind, "parent": parent}
        self.list.append(facts | {key: value for key, value in more.items() if value})
        return len(self.list) - 1

    def _enter(self, graph: Dump, parent: int | None, label: str) -> None:
        root = self._add(label, "graph", parent)
        self._item(graph, graph.outline, root)
        for pattern in graph.patterns:
            within = self._common(self._of[id(graph), name] for name in pattern.members)
            self._put(graph, pattern.members, self._add(pattern.label, "pattern", within))
        for node in graph.order:
            if is_parameter(graph, node):
                readers = [reader for reader, _ in graph.consumers[node.name]]
                self._put(graph, [node.name], self._common(self.of(graph, reader) for reader in readers))
                self.inline.add((id(graph), node.name))
        for name, calls in graph.calls.items():
            self._call(graph, graph.nodes[name], calls)

    def _item(self, graph: Dump, item: Item, group: int) -> None:
        self._put(graph, item.nodes, group)
        for child in (*item.repetitions, *item.children):
            differs = [printable(text, LONGEST) for text in child.differs]
            times = child.times if child.repetitions else None
            self._item(graph, child, self._add(child.label, child.kind, group, times=times, differs=differs))

    def _call(self, graph: Dump, node: Node, calls: Iterable[Callee]) -> None:
        """Put called graphs into a group of their first caller."""
        new = [call for call in calls if not self._has(call.graph)]
        if not new:
            return
        group = self._add(f"{node.type} {node.name}", "call", self.of(graph, node))
        self._put(graph, [node.name], group)
        for call in new:
            self._enter(call.graph, group, f"{call.role} {call.graph.name}")

    def _put(self, graph: Dump, names: Iterable[str], group: int) -> None:
        self._of.update(((id(graph), name), group) for name in names)

    def _common(self, groups: Iterable[int]) -> int:
        """The innermost group that contains all of these."""
        paths = [self._path(group) for group in set(groups)]
        return max(set.intersection(*paths)) if paths else 0

    def _path(self, group: int) -> set[int]:
        path, above = set(), group
        while above is not None:
            path.add(above)
            above = self.list[above]["parent"]
        return path


def is_parameter(graph: Dump, node: Node) -> bool:
    """Whether a graph input or constant is shown inside its readers: a parameter or a number, no activation.

    Where the dump does not say so by a module path, nodes read activations first and weights after them; casts and
    reshapes are skipped.
    """
    readers = graph.consumers[node.name]
    if node.type not in CONST_TYPES | OUTSIDE_TYPES or not (readers or node.type in CONST_TYPES):
        return False
    if any(reader.type in END_TYPES for reader, _ in readers):
        return False
    if node.type not in INPUT_TYPES or node.source.module:
        return True
    return _is_number(graph, node) or _is_read_as_weight(graph, node)


def _is_number(graph: Dump, node: Node) -> bool:
    types = graph.inference.types[node.name]
    return len(types) == 1 and types[0].shape == ()


def _is_read_as_weight(graph: Dump, node: Node) -> bool:
    waiting, seen = [node.name], set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for reader, position in graph.consumers[name]:
            flows = [edge.node for edge in reader.inputs if edge.node and _flows(graph, edge.node)]
            if reader.type in END_TYPES:
                return False
            if len(set(flows)) < 2:
                waiting += [] if reader.name in seen else [reader.name]
            elif (position == 0) != (reader.type in _TABLES):
                return False
    return True


def _flows(graph: Dump, name: str) -> bool:
    return graph.nodes[name].type not in CONST_TYPES and name not in graph.inference.values
