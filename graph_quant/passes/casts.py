"""Removes casts that change nothing: to the dtype of the input, or back after a lossless cast.

A cast that rounds is never dropped, and two of them are never merged: rounding twice is not rounding once. A NaN stays
NaN; GE does not specify its payload.
"""

from __future__ import annotations

from ..ge import LOSSLESS_CASTS
from .graph import Graph


def run(graph: Graph) -> None:
    """Let readers of a cast that changes nothing read its input."""
    for op in graph.nodes_of_type("Cast"):
        result, source = f"{op.name}:0", op.input[0]
        dtype = graph.inferred(result).dtype
        if dtype is None:
            continue
        if graph.inferred(source).dtype == dtype:
            graph.replace(result, source)
            continue
        before = graph.producer(source)
        if before.type != "Cast":
            continue
        origin = before.input[0]
        if graph.inferred(origin).dtype == dtype and graph.inferred(source).dtype in LOSSLESS_CASTS.get(dtype, ()):
            graph.replace(result, origin)
