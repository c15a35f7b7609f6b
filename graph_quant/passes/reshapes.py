"""Removes reshapes to the shape of an ancestor, and merges consecutive reshapes."""

from __future__ import annotations

from typing import Any

from .constants import get_constant
from .graph import Graph
from .sizes import Sizes

RESHAPING_TYPES = ("Reshape", "Unsqueeze", "Squeeze")


def run(graph: Graph) -> None:
    """Replace or merge nodes that only reshape."""
    for op in graph.nodes_of_type(*RESHAPING_TYPES, "Identity"):
        if op.type == "Identity":
            graph.replace(f"{op.name}:0", op.input[0])
        elif not _reuse_ancestor(graph, op):
            _merge(graph, op)


def find_origin(graph: Graph, reference: str) -> str:
    """The start of a chain of reshaping nodes."""
    while (op := graph.producer(reference)).type in RESHAPING_TYPES and op.name not in graph.pinned:
        if op.input[0] in graph.written:
            break
        reference = op.input[0]
    return reference


def _reuse_ancestor(graph: Graph, op: Any) -> bool:
    """Replace a node by the nearest ancestor with the same shape; False where there is none."""
    result = reference = f"{op.name}:0"
    shape = graph.shape(result)
    start = find_origin(graph, result)
    while shape is not None and reference != start:
        reference = graph.producer(reference).input[0]
        if graph.shape(reference) == shape and graph.replace(result, reference):
            return True
    return False


def _merge(graph: Graph, op: Any) -> None:
    """Reshape the start of the chain directly, past the nodes between."""
    start = find_origin(graph, op.input[0])
    if start == op.input[0] or op.input[0] in graph.written:
        return
    target = graph.shape(f"{op.name}:0")
    numbers = None if target is None else express_shape(graph, target, start)
    if numbers is not None and (op.type == "Reshape" or len(graph.readers[op.input[0]]) == 1):
        turn_into_reshape(graph, op, start, numbers)
    elif op.type == "Reshape" and _is_absolute(graph, op.input[1]):
        graph.set_input(op, 0, start)
    elif op.type == "Unsqueeze" and graph.producer(op.input[0]).type == "Unsqueeze":
        _merge_axes(graph, op, graph.producer(op.input[0]))


def _is_absolute(graph: Graph, shape: str) -> bool:
    """Whether a target shape is independent of the input: no size of it is 0, which would be copied."""
    value = graph.inferred(shape).value
    return value is not None and all(size.number != 0 for size in value)


def _merge_axes(graph: Graph, op: Any, before: Any) -> None:
    shape, inner = graph.shape(f"{op.name}:0"), graph.shape(f"{before.name}:0")
    if shape is None or inner is None or before.name in graph.pinned:
        return
    added = {axis % len(shape) for axis in op.attr["axes"].list.i}
    earlier = {axis % len(inner) for axis in before.attr["axes"].list.i}
    kept = [axis for axis in range(len(shape)) if axis not in added]
    op.attr["axes"].list.i[:] = sorted(added | {kept[axis] for axis in earlier})
    graph.set_input(op, 0, before.input[0])


def express_shape(graph: Graph, target: Sizes, source: str) -> list[int] | None:
    """``target`` as a constant shape for a Reshape of ``source``, with 0 to copy and -1 to infer, or None."""
    input_shape = graph.shape(source) or ()
    numbers = [size.number for size in target]
    if 0 in numbers:
        return None
    if numbers.count(None) > 1:
        copied = (axis < len(input_shape) and input_shape[axis] == size for axis, size in enumerate(target))
        numbers = [0 if one is None and same else one for one, same in zip(numbers, copied, strict=True)]
    if numbers.count(None) > 1:
        return None
    # -1 is inferred by division, and in an empty input without -1 a 0 is not copied: no other size may be 0.
    positive = graph.inference.positive
    others = [size for size, one in zip(target, numbers, strict=True) if one is not None]
    if (None in numbers or 0 in numbers) and not all(size.is_positive(positive) for size in others):
        return None
    return [-1 if one is None else one for one in numbers]


def turn_into_reshape(graph: Graph, op: Any, source: str, numbers: list[int]) -> None:
    """Turn a node into a Reshape of ``source`` to a constant shape, with the same result."""
    shape = get_constant(graph, "int64", numbers)
    graph.set_input(op, 0, source)
    if op.type == "Reshape":
        graph.set_input(op, 1, shape)
        return
    op.type = "Reshape"
    op.attr.clear()
    op.attr["axis"].i = 0
    op.attr["num_axes"].i = -1
    op.input.append("")
    desc = op.input_desc.add()
    desc.CopyFrom(graph.output_desc(shape))
    op.input_desc[0].name, desc.name = "x", "shape"
    set_io_names(op)
    graph.connect(op, 1, shape)


def set_io_names(op: Any) -> None:
    """Store the names of inputs and outputs in attributes, as TorchAir does."""
    for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
        op.attr[f"_{side}_name_key"].list.s[:] = [desc.name.encode() for desc in descs]
        op.attr[f"_{side}_name_value"].list.i[:] = range(len(descs))
