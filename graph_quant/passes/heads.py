"""Keys and values that are repeated for the heads of queries that share them: not where attention shares them."""

from __future__ import annotations

from typing import Any

from ..ge import plain
from .graph import Graph
from .reshapes import SHAPING
from .sizes import ONE, Sizes

_KEY, _VALUE = 1, 2
_HEADS = 1


def run(graph: Graph) -> None:
    """Let attention read the heads as they were before each was repeated."""
    for op in graph.of_type("FlashAttentionScore"):
        if plain(op.attr["input_layout"]) == "BNSD":
            _share(graph, op)


def _share(graph: Graph, op: Any) -> None:
    key, value = (_before_repeats(graph, op.input[place]) for place in (_KEY, _VALUE))
    if key is None or value is None:
        return
    shapes = graph.shape(key), graph.shape(value)
    if shapes[0] is not None and shapes[1] is not None and shapes[0][_HEADS] == shapes[1][_HEADS]:
        graph.read(op, _KEY, key)
        graph.read(op, _VALUE, value)


def _before_repeats(graph: Graph, reference: str) -> str | None:
    """What (batch, head, token, channel) was repeated by head, each head side by side with its copies."""
    joined = graph.maker(reference)
    repeated = graph.maker(joined.input[0]) if joined.type == "Reshape" else joined
    if joined is repeated or repeated.type != "BroadcastTo":
        return None
    single, many, flat = (graph.shape(each) for each in (repeated.input[0], joined.input[0], reference))
    if single is None or many is None or flat is None or not len(single) == len(many) == len(flat) + 1 == 5:
        return None
    batch, heads, copies, *rest = many
    if single != (batch, heads, ONE, *rest) or flat != (batch, heads * copies, *rest):
        return None
    return _shaped(graph, repeated.input[0], (batch, heads, *rest))


def _shaped(graph: Graph, reference: str, shape: Sizes) -> str | None:
    """The nearest ancestor with the same elements that has a shape, unless its memory is written to."""
    while graph.shape(reference) != shape:
        op = graph.maker(reference)
        if op.type not in SHAPING:
            return None
        reference = op.input[0]
    return None if reference in graph.written else reference
