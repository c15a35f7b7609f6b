"""Dimensions of one element that are put in after a Transpose: put in before it, by the Reshape that is there."""

from __future__ import annotations

from typing import Any

from .constants import constant
from .graph import Graph
from .reshapes import expressed
from .sizes import ONE, Sizes

_TOLD = "_fx_tensor_name"


def join(graph: Graph, op: Any) -> None:
    """Of Reshape, Transpose and ``op``, which only adds such dimensions, leave two."""
    turn = graph.maker(op.input[0])
    if turn.type != "Transpose":
        return
    first = graph.maker(turn.input[0])
    axes, after = graph.known(turn.input[1]).numbers, graph.shape(f"{op.name}:0")
    before = graph.shape(f"{first.name}:0")
    if first.type != "Reshape" or not (_is_between(graph, first) and _is_between(graph, turn)):
        return
    if axes is None or after is None or before is None or not graph.may_replace(f"{op.name}:0", f"{turn.name}:0"):
        return
    order = _order(before, axes, after)
    numbers = None if order is None else expressed(graph, (ONE,) * (len(order) - len(axes)) + before, first.input[0])
    if order is None or numbers is None:
        return
    graph.read(first, 1, constant(graph, "int64", numbers))
    graph.read(turn, 1, constant(graph, "int64", order))
    for changed in (first, turn):
        graph.infer.forget(changed.name)
    graph.replace(f"{op.name}:0", f"{turn.name}:0")


def _is_between(graph: Graph, op: Any) -> bool:
    """Whether one node alone reads it, and no operator of torch has its result."""
    result = f"{op.name}:0"
    free = op.name not in graph.pinned and result not in graph.written and op.input[0] not in graph.written
    return free and len(graph.readers[result]) == 1 and _TOLD not in graph.output_desc(result).attr


def _order(before: Sizes, axes: list[int], after: Sizes) -> list[int] | None:
    """The order of axes that gives ``after`` at once, where dimensions of one element stand first."""
    added = len(after) - len(axes)
    turned = [axis % len(before) for axis in axes]
    order: list[int] = []
    units = 0
    for size in after:
        if turned and before[turned[0]] == size:
            order.append(added + turned.pop(0))
        elif size == ONE and units < added:
            order.append(units)
            units += 1
        else:
            return None
    return None if turned or units < added else order
