"""Formats a graph for Graphviz, with dtypes and shapes on the edges and patterns as clusters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, QUANTISED, Node, printable
from ..graph.patterns import Pattern

if TYPE_CHECKING:
    from ..dump import Dump

_FILL = {"quantised": "#ffe3b3", "input": "#d8ecff", "constant": "#eeeeee", "plain": "#ffffff"}


def to_dot(dump: Dump) -> str:
    """Format a dump for Graphviz.

    Args:
        dump: The dump.

    Returns:
        The text of a ``.dot`` file.

    Examples:
        >>> Path("graph.dot").write_text(to_dot(dump))
    """
    lines = ["digraph ge {", '  node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    prefixes = {id(graph): f"g{number}" if number else "" for number, graph in enumerate(dump.graphs())}
    for graph in dump.graphs():
        prefix = prefixes[id(graph)]
        inside = _graph_lines(graph, prefix)
        if prefix:
            inside = [f"  subgraph cluster_{prefix} {{", f"    label={_quote(graph.name)};", *inside, "  }"]
        lines += inside
        for name, calls in graph.calls.items():
            caller = f"{prefix}n{graph.position[name]}"
            lines += [
                f"  {caller} -> {prefixes[id(call.graph)]}n0 [style=dotted, label={_quote(call.role)}];"
                for call in calls
            ]
    return "\n".join([*lines, "}", ""])


def _graph_lines(dump: Dump, prefix: str) -> list[str]:
    identifiers = {node.name: f"{prefix}n{index}" for index, node in enumerate(dump.order)}
    member_of = {name: pattern for pattern in dump.patterns for name in pattern.members}
    lines = []
    for number, pattern in enumerate(dump.patterns):
        lines += _cluster_lines(dump, pattern, f"{prefix}_{number}" if prefix else str(number), identifiers)
    lines += [f"  {_node_text(dump, node, identifiers)}" for node in dump.order if node.name not in member_of]
    for node in dump.order:
        for edge in node.inputs:
            if edge.node:
                label = _quote(str(dump.inference.type_of(edge) or "?"))
                lines.append(f"  {identifiers[edge.node]} -> {identifiers[node.name]} [label={label}];")
        lines += [f"  {identifiers[name]} -> {identifiers[node.name]} [style=dashed];" for name in node.controls]
    return lines


def _cluster_lines(dump: Dump, pattern: Pattern, number: str, identifiers: dict[str, str]) -> list[str]:
    inside = [f"    {_node_text(dump, dump.nodes[name], identifiers)}" for name in pattern.members]
    return [f"  subgraph cluster_{number} {{", f"    label={_quote(pattern.label)};", *inside, "  }"]


def _node_text(dump: Dump, node: Node, identifiers: dict[str, str]) -> str:
    label = _quote(f"{printable(node.name, 60)}\n{printable(node.type, 60)}")
    return f"{identifiers[node.name]} [label={label}, fillcolor={_quote(_FILL[node_role(dump, node)])}];"


def node_role(dump: Dump, node: Node) -> str:
    """The role that decides a node's colour: input, constant, quantised or plain."""
    if node.type in OUTSIDE_TYPES | END_TYPES:
        return "input"
    if node.type in CONST_TYPES:
        return "constant"
    touched = (*dump.inference.input_types(node), *dump.inference.types[node.name])
    return "quantised" if any(t.dtype in QUANTISED for t in touched) else "plain"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
