"""Casts that change nothing: to the dtype that is there, or back after a cast that kept every value.

One that rounds is never dropped, nor is one joined with another: rounding twice is not rounding once. (A NaN stays a
NaN; which of them it is, GE does not say.)
"""

from __future__ import annotations

from .graph import Graph

_SMALL = ("int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
# By a dtype: those that hold each of its values.
KEEPING: dict[str, tuple[str, ...]] = {
    "bool": ("int8", "uint8", *_SMALL),
    "int8": _SMALL,
    "uint8": _SMALL,
    "int16": ("int32", "int64", "float32", "float64"),
    "int32": ("int64", "float64"),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}


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
