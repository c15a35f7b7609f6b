"""Transposes: none where two undo each other, and none before a product that can transpose by itself."""

from __future__ import annotations

from typing import Any

from ..ge import TRANSPOSING
from . import units
from .constants import constant
from .graph import Graph


def run(graph: Graph) -> None:
    """Join transposes, and let products do them."""
    for op in graph.of_type("Transpose"):
        _join(graph, op)
    for op in graph.of_type("Reshape", "Unsqueeze"):
        units.join(graph, op)
    for op in graph.of_type(*TRANSPOSING):
        for place, attribute in TRANSPOSING[op.type].items():
            _absorb(graph, op, place, attribute)


def order(graph: Graph, op: Any) -> list[int] | None:
    """The axes of a Transpose's input in the order that it gives them."""
    numbers = graph.known(op.input[1]).numbers
    return None if numbers is None else [axis % len(numbers) for axis in numbers]


def _join(graph: Graph, op: Any) -> None:
    axes, before = order(graph, op), graph.maker(op.input[0])
    source = op.input[0]
    if axes is None:
        return
    if before.type == "Transpose" and before.name not in graph.pinned and before.input[0] not in graph.written:
        earlier = order(graph, before)
        if earlier is None or len(earlier) != len(axes):
            return
        axes, source = [earlier[axis] for axis in axes], before.input[0]
    if axes == sorted(axes):
        graph.replace(f"{op.name}:0", source)
    elif source != op.input[0]:
        graph.read(op, 0, source)
        graph.read(op, 1, constant(graph, "int64", axes))


def _absorb(graph: Graph, op: Any, place: int, attribute: str) -> None:
    before = graph.maker(op.input[place])
    if before.type != "Transpose" or before.name in graph.pinned or before.input[0] in graph.written:
        return
    axes = order(graph, before)
    if axes is None or axes != [*range(len(axes) - 2), len(axes) - 1, len(axes) - 2]:
        return
    op.attr[attribute].b = not op.attr[attribute].b
    graph.read(op, place, before.input[0])
