"""Chains of nodes that together do one thing: packing and unpacking int4, and arithmetic on sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, Node
from .shapes import format_dim

if TYPE_CHECKING:
    from ..dump import Dump

# The types of nodes that compute the shape of a Reshape.
_SHAPE_TYPES = {"Shape", "Const", "Constant", "Div", "FloorDiv", "RealDiv", "Mul", "Add", "Sub", "ConcatV2", "ConcatD",
                "Pack", "Gather", "GatherV2", "StridedSlice", "Cast", "Identity", "Squeeze", "Unsqueeze"}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """A chain that is shown as one node; ``head`` is the member whose output the rest of the graph uses."""

    kind: str
    label: str
    head: str
    members: tuple[str, ...]


def find_patterns(dump: Dump) -> list[Pattern]:
    """Find all patterns of the graph; no node is in two of them."""
    taken: set[str] = set()
    patterns: list[Pattern] = []
    for pattern in (*_find_packing(dump), *_find_unpacking(dump), *_find_size_arithmetic(dump, taken)):
        if len(pattern.members) > 1 and taken.isdisjoint(pattern.members):
            taken.update(pattern.members)
            patterns.append(pattern)
    return patterns


def find_packing_reshape(dump: Dump, bitcast: Node) -> Node | None:
    """Return the Reshape before ``bitcast`` if the two pack int4 into int32."""
    if bitcast.type != "Bitcast" or not bitcast.inputs or not bitcast.inputs[0].node:
        return None
    reshape = dump.nodes[bitcast.inputs[0].node]
    types = dump.inference.types
    if reshape.type != "Reshape" or not types.get(reshape.name) or not types.get(bitcast.name):
        return None
    is_packing = types[reshape.name][0].dtype == "int4" and types[bitcast.name][0].dtype == "int32"
    return reshape if is_packing else None


def _find_packing(dump: Dump) -> Iterator[Pattern]:
    for node in dump.order:
        reshape = find_packing_reshape(dump, node)
        if reshape is None:
            continue
        core, head = {reshape.name, node.name}, node
        following = [reader for reader, _ in dump.consumers[node.name]]
        if len(following) == 1 and following[0].type == "Reshape":
            head = following[0]
            core.add(head.name)
        yield Pattern("pack int4", "pack int4", head.name, _fold_producers(dump, core, _computes_shape))


def _find_unpacking(dump: Dump) -> Iterator[Pattern]:
    for node in dump.order:
        if node.type != "Bitcast":
            continue
        input_dtypes = [read.dtype for read in dump.inference.input_types(node)]
        output_dtypes = [result.dtype for result in dump.inference.types[node.name]]
        readers = [reader for reader, _ in dump.consumers[node.name]]
        if (input_dtypes, output_dtypes) == (["int32"], ["int4"]) and [reader.type for reader in readers] == [
            "Reshape"
        ]:
            members = _fold_producers(dump, {node.name, readers[0].name}, _computes_shape)
            yield Pattern("unpack int4", "unpack int4", readers[0].name, members)


def _find_size_arithmetic(dump: Dump, taken: set[str]) -> Iterator[Pattern]:
    values = dump.inference.values

    def is_size(node: Node) -> bool:
        return node.name in values and node.name not in taken and node.type not in INPUT_TYPES

    for node in dump.order:
        if not is_size(node) or node.type in CONST_TYPES:
            continue
        readers = [reader for reader, _ in dump.consumers[node.name]]
        if readers and all(is_size(reader) and reader.type != OUTPUT_TYPE for reader in readers):
            continue
        yield Pattern(
            "size",
            format_size_label(values[node.name], node, dump),
            node.name,
            _fold_producers(dump, {node.name}, is_size),
        )


def format_size_label(items: tuple[Any, ...], node: Node, dump: Dump) -> str:
    """Label a pattern that computes sizes."""
    shape = dump.inference.types[node.name][0].shape
    text = ", ".join(map(format_dim, items))
    return f"size {text}" if shape == () else f"shape [{text}]"


def _computes_shape(node: Node) -> bool:
    return node.type in _SHAPE_TYPES


def _fold_producers(dump: Dump, core: set[str], may_fold: Callable[[Node], bool]) -> tuple[str, ...]:
    """Add to ``core`` every producer that may be folded and that only members read; in execution order."""
    members = set(core)
    frontier = set(core)
    while frontier:
        producers = {producer for name in members for producer in dump.nodes[name].producers} - members
        frontier = {
            name
            for name in producers
            if may_fold(dump.nodes[name]) and all(reader.name in members for reader, _ in dump.consumers[name])
        }
        members |= frontier
    return tuple(sorted(members, key=dump.position.__getitem__))
