"""GQA broadcast removal: attention reads keys and values before they are repeated for the query heads (repeat_kv)."""

from __future__ import annotations

from typing import Any

from ..ge import to_python
from .graph import Graph
from .reshapes import RESHAPING_TYPES
from .sizes import ONE, Sizes

_KEY, _VALUE = 1, 2
_HEADS = 1


def run(graph: Graph) -> None:
    """Let attention read the unrepeated key and value heads; the node itself shares them among query heads."""
    for op in graph.nodes_of_type("FlashAttentionScore"):
        if to_python(op.attr["input_layout"]) == "BNSD":
            _remove_broadcast(graph, op)


def _remove_broadcast(graph: Graph, op: Any) -> None:
    key, value = (_find_unrepeated(graph, op.input[index]) for index in (_KEY, _VALUE))
    if key is None or value is None:
        return
    shapes = graph.shape(key), graph.shape(value)
    if shapes[0] is not None and shapes[1] is not None and shapes[0][_HEADS] == shapes[1][_HEADS]:
        graph.set_input(op, _KEY, key)
        graph.set_input(op, _VALUE, value)


def _find_unrepeated(graph: Graph, reference: str) -> str | None:
    """The (batch, head, token, channel) tensor that was repeated by head, each head next to its copies; or None."""
    joined = graph.producer(reference)
    repeated = graph.producer(joined.input[0]) if joined.type == "Reshape" else joined
    if joined is repeated or repeated.type != "BroadcastTo":
        return None
    single, many, flat = (graph.shape(name) for name in (repeated.input[0], joined.input[0], reference))
    if single is None or many is None or flat is None or not len(single) == len(many) == len(flat) + 1 == 5:
        return None
    batch, heads, copies, *rest = many
    if single != (batch, heads, ONE, *rest) or flat != (batch, heads * copies, *rest):
        return None
    return _find_shape(graph, repeated.input[0], (batch, heads, *rest))


def _find_shape(graph: Graph, reference: str, shape: Sizes) -> str | None:
    """The nearest ancestor with the same elements in ``shape``, unless its memory is overwritten."""
    while graph.shape(reference) != shape:
        op = graph.producer(reference)
        if op.type not in RESHAPING_TYPES:
            return None
        reference = op.input[0]
    return None if reference in graph.written else reference
