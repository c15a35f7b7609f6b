"""Sizes that are known: constants instead of their computation, and equal ones computed once."""

from __future__ import annotations

from typing import Any

from ..ge import CONST_TYPES
from .constants import constant
from .graph import Graph
from .known import TOLD
from .reshapes import expressed
from .results import RANGES
from .sizes import Sizes


def run(graph: Graph) -> None:
    """Fold what is known, and read equal sizes from one place."""
    for op in graph.of_type("Reshape"):
        _state_shape(graph, op)
    first: dict[tuple[str, Sizes, Sizes], str] = {}
    for op in graph.of_type("Data", *TOLD):
        if op.type not in CONST_TYPES:
            _compute_once(graph, op, first)


def _state_shape(graph: Graph, op: Any) -> None:
    """Give a Reshape a constant, with what is copied or inferred in it, instead of sizes put together."""
    target = graph.shape(f"{op.name}:0")
    if target is None or graph.maker(op.input[1]).type in CONST_TYPES:
        return
    numbers = expressed(graph, target, op.input[0])
    if numbers is not None:
        graph.read(op, 1, constant(graph, "int64", numbers))


def _compute_once(graph: Graph, op: Any, first: dict[tuple[str, Sizes, Sizes], str]) -> None:
    result = f"{op.name}:0"
    known = graph.known(result)
    if known.value is None or known.dtype not in RANGES or known.shape is None or len(known.shape) > 1:
        return
    numbers = known.numbers
    if numbers is None:
        graph.replace(result, first.setdefault((known.dtype, known.shape, known.value), result))
        return
    if op.type != "Data" and all(each in RANGES[known.dtype] for each in numbers) and graph.readers.get(result):
        graph.replace(result, constant(graph, known.dtype, numbers, is_scalar=not known.shape))
