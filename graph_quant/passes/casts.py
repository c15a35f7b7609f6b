"""Casts that change nothing: to the dtype that is there, or back after a cast that kept every value.

One that rounds is never dropped, nor is one joined with another: rounding twice is not rounding once. (A NaN stays a
NaN; which of them it is, GE does not say.)
"""

from __future__ import annotations

from ..ge import KEEPING
from .graph import Graph


def run(graph: Graph) -> None:
    """Pass casts by that change nothing."""
    for op in graph.of_type("Cast"):
        result, source = f"{op.name}:0", op.input[0]
        dtype = graph.known(result).dtype
        if dtype is None:
            continue
        if graph.known(source).dtype == dtype:
            graph.replace(result, source)
            continue
        before = graph.maker(source)
        if before.type != "Cast":
            continue
        origin = before.input[0]
        if graph.known(origin).dtype == dtype and graph.known(source).dtype in KEEPING.get(dtype, ()):
            graph.replace(result, origin)
