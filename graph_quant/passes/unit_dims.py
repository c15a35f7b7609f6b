"""Hoists unit dimensions that are inserted after a Transpose into the Reshape before it."""

from __future__ import annotations

from typing import Any

from .constants import get_constant
from .graph import Graph
from .reshapes import express_shape
from .sizes import ONE, Sizes

_FX_NAME = "_fx_tensor_name"


def hoist_unit_dims(graph: Graph, op: Any) -> None:
    """Fold ``op``, which only adds unit dimensions, into the Reshape and Transpose that it follows."""
    transpose = graph.producer(op.input[0])
    if transpose.type != "Transpose":
        return
    first = graph.producer(transpose.input[0])
    axes, after = graph.inferred(transpose.input[1]).numbers, graph.shape(f"{op.name}:0")
    before = graph.shape(f"{first.name}:0")
    if first.type != "Reshape" or not (_is_between(graph, first) and _is_between(graph, transpose)):
        return
    if axes is None or after is None or before is None or not graph.may_replace(f"{op.name}:0", f"{transpose.name}:0"):
        return
    order = _order(before, axes, after)
    numbers = (
        None if order is None else express_shape(graph, (ONE,) * (len(order) - len(axes)) + before, first.input[0])
    )
    if order is None or numbers is None:
        return
    graph.set_input(first, 1, get_constant(graph, "int64", numbers))
    graph.set_input(transpose, 1, get_constant(graph, "int64", order))
    for changed in (first, transpose):
        graph.inference.forget(changed.name)
    graph.replace(f"{op.name}:0", f"{transpose.name}:0")


def _is_between(graph: Graph, op: Any) -> bool:
    """Whether a node has one reader alone, and its result is not the result of an FX node."""
    result = f"{op.name}:0"
    free = op.name not in graph.pinned and result not in graph.written and op.input[0] not in graph.written
    return free and len(graph.readers[result]) == 1 and _FX_NAME not in graph.output_desc(result).attr


def _order(before: Sizes, axes: list[int], after: Sizes) -> list[int] | None:
    """The permutation that gives ``after``, where the added unit dimensions come first; None where there is none."""
    added = len(after) - len(axes)
    remaining = [axis % len(before) for axis in axes]
    order: list[int] = []
    units = 0
    for size in after:
        if remaining and before[remaining[0]] == size:
            order.append(added + remaining.pop(0))
        elif size == ONE and units < added:
            order.append(units)
            units += 1
        else:
            return None
    return None if remaining or units < added else order
