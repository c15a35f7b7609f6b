"""int4 that are packed into int32 and unpacked again: neither."""

from __future__ import annotations

from .graph import Graph
from .reshapes import expressed, into_reshape, origin


def run(graph: Graph) -> None:
    """Let unpacking read the elements that were packed, in the shape that it gives them."""
    for op in graph.of_type("Bitcast"):
        result = f"{op.name}:0"
        start = origin(graph, op.input[0])
        packing = graph.maker(start)
        if packing.type != "Bitcast" or packing.name in graph.pinned:
            continue
        elements = packing.input[0]
        if (graph.known(elements).dtype, graph.known(start).dtype, graph.known(result).dtype) != (
            "int4",
            "int32",
            "int4",
        ):
            continue
        shape = graph.shape(result)
        if start == op.input[0] or (shape is not None and shape == graph.shape(elements)):
            graph.replace(result, elements)
        elif shape is not None and graph.may_replace(result, elements):
            numbers = expressed(graph, shape, elements)
            if numbers is not None:
                into_reshape(graph, op, elements, numbers)
