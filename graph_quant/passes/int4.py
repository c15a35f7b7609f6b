"""Removes pairs of packing int4 into int32 and unpacking them again."""

from __future__ import annotations

from .graph import Graph
from .reshapes import express_shape, find_origin, turn_into_reshape


def run(graph: Graph) -> None:
    """Replace unpacking by the elements that were packed, reshaped where needed."""
    for op in graph.nodes_of_type("Bitcast"):
        result = f"{op.name}:0"
        start = find_origin(graph, op.input[0])
        packing = graph.producer(start)
        if packing.type != "Bitcast" or packing.name in graph.pinned:
            continue
        elements = packing.input[0]
        if (graph.inferred(elements).dtype, graph.inferred(start).dtype, graph.inferred(result).dtype) != (
            "int4",
            "int32",
            "int4",
        ):
            continue
        shape = graph.shape(result)
        if start == op.input[0] or (shape is not None and shape == graph.shape(elements)):
            graph.replace(result, elements)
        elif shape is not None and graph.may_replace(result, elements):
            numbers = express_shape(graph, shape, elements)
            if numbers is not None:
                turn_into_reshape(graph, op, elements, numbers)
