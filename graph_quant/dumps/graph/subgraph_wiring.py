"""How a node is connected to the graphs that it calls: inputs to inputs, results to outputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...ge import INPUT_TYPES, Node

if TYPE_CHECKING:
    from ..dump import Dump

_PARENT = "_parent_node_index"
_NUMBERED = re.compile(r"(?:input|args|x)_?(?P<number>\d+)$")


def map_inputs(graph: Dump, caller: Node) -> dict[str, int]:
    """Map each input of a called graph to the index of the caller's input that feeds it."""
    numbered = {
        int(match["number"]): position
        for position, edge in enumerate(caller.inputs)
        if (match := _NUMBERED.match(edge.name)) is not None and len(match["number"]) < 6
    }
    first = 0 if caller.type not in ("If", "StatelessIf", "_If", "Case", "StatelessCase") else 1
    positions: dict[str, int] = {}
    for node in graph.order:
        if node.type not in INPUT_TYPES:
            continue
        if _PARENT in node.proto.attr:
            positions[node.name] = node.proto.attr[_PARENT].i
        elif "index" in node.proto.attr:
            index = node.proto.attr["index"].i
            positions[node.name] = numbered.get(index, index + first)
    return {name: position for name, position in positions.items() if 0 <= position < len(caller.inputs)}


def map_outputs(end: Node) -> dict[int, int]:
    """Map each input of a graph's end node to the index of the caller's output."""
    descs = end.proto.input_desc
    return {
        position: descs[position].attr[_PARENT].i
        if position < len(descs) and _PARENT in descs[position].attr
        else position
        for position in range(len(end.inputs))
        if position < 4096
    }
