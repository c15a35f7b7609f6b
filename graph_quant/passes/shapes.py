"""Replaces computed sizes by constants where they are known, and computes equal symbolic sizes once."""

from __future__ import annotations

from typing import Any

from ..ge import CONST_TYPES
from .constants import get_constant
from .graph import Graph
from .purity import PURE_TYPES
from .reshapes import express_shape
from .shape_functions import RANGES
from .sizes import Sizes


def run(graph: Graph) -> None:
    """Fold known sizes, and merge equal ones."""
    for op in graph.nodes_of_type("Reshape"):
        _use_constant_shape(graph, op)
    first: dict[tuple[str, Sizes, Sizes], str] = {}
    for op in graph.nodes_of_type("Data", *PURE_TYPES):
        if op.type not in CONST_TYPES:
            _fold_or_merge(graph, op, first)


def _use_constant_shape(graph: Graph, op: Any) -> None:
    """Give a Reshape a constant shape, with 0 (copied) and -1 (inferred) for sizes that are not known."""
    target = graph.shape(f"{op.name}:0")
    if target is None or graph.producer(op.input[1]).type in CONST_TYPES:
        return
    numbers = express_shape(graph, target, op.input[0])
    if numbers is not None:
        graph.set_input(op, 1, get_constant(graph, "int64", numbers))


def _fold_or_merge(graph: Graph, op: Any, first: dict[tuple[str, Sizes, Sizes], str]) -> None:
    result = f"{op.name}:0"
    inferred = graph.inferred(result)
    dtype, shape, value = inferred
    if value is None or dtype not in RANGES or shape is None or len(shape) > 1:
        return
    numbers = inferred.numbers
    if numbers is None:
        graph.replace(result, first.setdefault((dtype, shape, value), result))
        return
    if op.type != "Data" and all(size in RANGES[dtype] for size in numbers) and graph.readers.get(result):
        graph.replace(result, get_constant(graph, dtype, numbers, is_scalar=not shape))
