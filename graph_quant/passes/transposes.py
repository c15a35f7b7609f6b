"""Merges consecutive transposes, and folds a transpose into the matrix product that reads it."""

from __future__ import annotations

from typing import Any

from ..ge import TRANSPOSE_ATTRIBUTES
from . import unit_dims
from .constants import get_constant
from .graph import Graph


def run(graph: Graph) -> None:
    """Merge transposes, then fold them into the transpose attributes of products."""
    for op in graph.nodes_of_type("Transpose"):
        _merge(graph, op)
    for op in graph.nodes_of_type("Reshape", "Unsqueeze"):
        unit_dims.hoist_unit_dims(graph, op)
    for op in graph.nodes_of_type(*TRANSPOSE_ATTRIBUTES):
        for index, attribute in TRANSPOSE_ATTRIBUTES[op.type].items():
            _fold(graph, op, index, attribute)


def get_permutation(graph: Graph, op: Any) -> list[int] | None:
    """The permutation of a Transpose; None where it is not constant."""
    numbers = graph.inferred(op.input[1]).numbers
    return None if numbers is None else [axis % len(numbers) for axis in numbers]


def _merge(graph: Graph, op: Any) -> None:
    axes, before = get_permutation(graph, op), graph.producer(op.input[0])
    source = op.input[0]
    if axes is None:
        return
    if before.type == "Transpose" and before.name not in graph.pinned and before.input[0] not in graph.written:
        earlier = get_permutation(graph, before)
        if earlier is None or len(earlier) != len(axes):
            return
        axes, source = [earlier[axis] for axis in axes], before.input[0]
    if axes == sorted(axes):
        graph.replace(f"{op.name}:0", source)
    elif source != op.input[0]:
        graph.set_input(op, 0, source)
        graph.set_input(op, 1, get_constant(graph, "int64", axes))


def _fold(graph: Graph, op: Any, index: int, attribute: str) -> None:
    before = graph.producer(op.input[index])
    if before.type != "Transpose" or before.name in graph.pinned or before.input[0] in graph.written:
        return
    axes = get_permutation(graph, before)
    if axes is None or axes != [*range(len(axes) - 2), len(axes) - 1, len(axes) - 2]:
        return
    op.attr[attribute].b = not op.attr[attribute].b
    graph.set_input(op, index, before.input[0])
