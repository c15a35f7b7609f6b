"""How a node and the graphs it calls are wired: which input feeds which, and which result is which output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...ge import INPUT_TYPES, Node

if TYPE_CHECKING:
    from ..dump import Dump

_PLACE = "_parent_node_index"
_NUMBERED = re.compile(r"(?:input|args|x)_?(?P<number>\d+)$")


def parameters(graph: Dump, caller: Node) -> dict[str, int]:
    """The inputs of a called graph by name, each with the place among the caller's inputs that feeds it."""
    numbered = {
        int(found["number"]): place
        for place, edge in enumerate(caller.inputs)
        if (found := _NUMBERED.match(edge.name)) is not None and len(found["number"]) < 6
    }
    first = 0 if caller.type not in ("If", "StatelessIf", "_If", "Case", "StatelessCase") else 1
    places: dict[str, int] = {}
    for node in graph.order:
        if node.type not in INPUT_TYPES:
            continue
        if _PLACE in node.proto.attr:
            places[node.name] = node.proto.attr[_PLACE].i
        elif "index" in node.proto.attr:
            index = node.proto.attr["index"].i
            places[node.name] = numbered.get(index, index + first)
    return {name: place for name, place in places.items() if 0 <= place < len(caller.inputs)}


def returned_places(end: Node) -> dict[int, int]:
    """The inputs of a graph's end, each with the output of the caller that it becomes."""
    descs = end.proto.input_desc
    return {
        place: descs[place].attr[_PLACE].i if place < len(descs) and _PLACE in descs[place].attr else place
        for place in range(len(end.inputs))
        if place < 4096
    }
