"""Nodes that only give another shape: none where the shape is there already, one where several follow each other."""

from __future__ import annotations

from typing import Any

from .constants import constant
from .graph import Graph
from .sizes import Sizes

SHAPING = ("Reshape", "Unsqueeze", "Squeeze")


def run(graph: Graph) -> None:
    """Read past shapes that nobody needs."""
    for op in graph.of_type(*SHAPING, "Identity"):
        if op.type == "Identity":
            graph.replace(f"{op.name}:0", op.input[0])
        elif not _is_there_already(graph, op):
            _join(graph, op)


def origin(graph: Graph, reference: str) -> str:
    """What a chain of such nodes starts from."""
    while (op := graph.maker(reference)).type in SHAPING and op.name not in graph.pinned:
        if op.input[0] in graph.written:
            break
        reference = op.input[0]
    return reference


def _is_there_already(graph: Graph, op: Any) -> bool:
    """Read the nearest ancestor that has the same elements in the same shape."""
    result = reference = f"{op.name}:0"
    shape = graph.shape(result)
    start = origin(graph, result)
    while shape is not None and reference != start:
        reference = graph.maker(reference).input[0]
        if graph.shape(reference) == shape and graph.replace(result, reference):
            return True
    return False


def _join(graph: Graph, op: Any) -> None:
    """Shape the origin at once: the steps between are for others, or for nobody."""
    start = origin(graph, op.input[0])
    if start == op.input[0] or op.input[0] in graph.written:
        return
    target = graph.shape(f"{op.name}:0")
    numbers = None if target is None else expressed(graph, target, start)
    if numbers is not None and (op.type == "Reshape" or len(graph.readers[op.input[0]]) == 1):
        into_reshape(graph, op, start, numbers)
    elif op.type == "Reshape" and _is_absolute(graph, op.input[1]):
        graph.read(op, 0, start)
    elif op.type == "Unsqueeze" and graph.maker(op.input[0]).type == "Unsqueeze":
        _join_axes(graph, op, graph.maker(op.input[0]))


def _is_absolute(graph: Graph, shape: str) -> bool:
    """Whether a shape copies no size of what it is given to."""
    value = graph.known(shape).value
    return value is not None and all(size.number != 0 for size in value)


def _join_axes(graph: Graph, op: Any, before: Any) -> None:
    shape, inner = graph.shape(f"{op.name}:0"), graph.shape(f"{before.name}:0")
    if shape is None or inner is None or before.name in graph.pinned:
        return
    added = {axis % len(shape) for axis in op.attr["axes"].list.i}
    earlier = {axis % len(inner) for axis in before.attr["axes"].list.i}
    kept = [axis for axis in range(len(shape)) if axis not in added]
    op.attr["axes"].list.i[:] = sorted(added | {kept[axis] for axis in earlier})
    graph.read(op, 0, before.input[0])


def expressed(graph: Graph, target: Sizes, source: str) -> list[int] | None:
    """``target`` as constants of a Reshape of ``source``: 0 copies a size of it, and one -1 is inferred."""
    given = graph.shape(source) or ()
    numbers = [size.number for size in target]
    if 0 in numbers:
        return None
    if numbers.count(None) > 1:
        copied = (axis < len(given) and given[axis] == size for axis, size in enumerate(target))
        numbers = [0 if one is None and same else one for one, same in zip(numbers, copied, strict=True)]
    if numbers.count(None) > 1:
        return None
    # What is inferred is found by division, and of nothing, with nothing to infer, 0 is 0: nothing else may be 0.
    positive = graph.infer.positive
    others = [size for size, one in zip(target, numbers, strict=True) if one is not None]
    if (None in numbers or 0 in numbers) and not all(size.is_positive(positive) for size in others):
        return None
    return [-1 if one is None else one for one in numbers]


def into_reshape(graph: Graph, op: Any, source: str, numbers: list[int]) -> None:
    """Make a node a Reshape of ``source`` to a constant shape; its result is what it was."""
    shape = constant(graph, "int64", numbers)
    graph.read(op, 0, source)
    if op.type == "Reshape":
        graph.read(op, 1, shape)
        return
    op.type = "Reshape"
    op.attr.clear()
    op.attr["axis"].i = 0
    op.attr["num_axes"].i = -1
    op.input.append("")
    desc = op.input_desc.add()
    desc.CopyFrom(graph.output_desc(shape))
    op.input_desc[0].name, desc.name = "x", "shape"
    name_parts(op)
    graph.feed(op, 1, shape)


def name_parts(op: Any) -> None:
    """Tell GE the names of inputs and outputs, as TorchAir does."""
    for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
        op.attr[f"_{side}_name_key"].list.s[:] = [desc.name.encode() for desc in descs]
        op.attr[f"_{side}_name_value"].list.i[:] = range(len(descs))
