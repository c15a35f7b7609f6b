"""Chains of nodes that say one thing: packing and unpacking int4, and arithmetic on sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, Node
from .shapes import dim_text

if TYPE_CHECKING:
    from ..dump import Dump

# What computes the shape of a Reshape.
_SHAPE_TYPES = {"Shape", "Const", "Constant", "Div", "FloorDiv", "RealDiv", "Mul", "Add", "Sub", "ConcatV2", "ConcatD",
                "Pack", "Gather", "GatherV2", "StridedSlice", "Cast", "Identity", "Squeeze", "Unsqueeze"}  # fmt: skip


@dataclass(frozen=True)
class Idiom:
    """A folded chain: ``head`` is the node whose output the rest of the graph uses."""

    kind: str
    label: str
    head: str
    members: tuple[str, ...]


def find_idioms(dump: Dump) -> list[Idiom]:
    """Every idiom of the graph, no node in two of them."""
    taken: set[str] = set()
    found: list[Idiom] = []
    for idiom in (*_packings(dump), *_unpackings(dump), *_sizes(dump, taken)):
        if len(idiom.members) > 1 and taken.isdisjoint(idiom.members):
            taken.update(idiom.members)
            found.append(idiom)
    return found


def packs_int4(dump: Dump, bitcast: Node) -> Node | None:
    """The Reshape before ``bitcast``, where the two pack int4 into int32."""
    if bitcast.type != "Bitcast" or not bitcast.inputs or not bitcast.inputs[0].node:
        return None
    reshape = dump.nodes[bitcast.inputs[0].node]
    types = dump.inference.types
    if reshape.type != "Reshape" or not types.get(reshape.name) or not types.get(bitcast.name):
        return None
    is_packing = types[reshape.name][0].dtype == "int4" and types[bitcast.name][0].dtype == "int32"
    return reshape if is_packing else None


def _packings(dump: Dump) -> Iterator[Idiom]:
    for node in dump.order:
        reshape = packs_int4(dump, node)
        if reshape is None:
            continue
        core, head = {reshape.name, node.name}, node
        following = [reader for reader, _ in dump.consumers[node.name]]
        if len(following) == 1 and following[0].type == "Reshape":
            head = following[0]
            core.add(head.name)
        yield Idiom("pack int4", "pack int4", head.name, _closure(dump, core, lambda one: one.type in _SHAPE_TYPES))


def _unpackings(dump: Dump) -> Iterator[Idiom]:
    for node in dump.order:
        if node.type != "Bitcast":
            continue
        given = [read.dtype for read in dump.inference.reads(node)]
        made = [result.dtype for result in dump.inference.types[node.name]]
        readers = [reader for reader, _ in dump.consumers[node.name]]
        if (given, made) == (["int32"], ["int4"]) and [reader.type for reader in readers] == ["Reshape"]:
            members = _closure(dump, {node.name, readers[0].name}, lambda one: one.type in _SHAPE_TYPES)
            yield Idiom("unpack int4", "unpack int4", readers[0].name, members)


def _sizes(dump: Dump, taken: set[str]) -> Iterator[Idiom]:
    values = dump.inference.values

    def is_size(node: Node) -> bool:
        return node.name in values and node.name not in taken and node.type not in INPUT_TYPES

    for node in dump.order:
        if not is_size(node) or node.type in CONST_TYPES:
            continue
        readers = [reader for reader, _ in dump.consumers[node.name]]
        if readers and all(is_size(reader) and reader.type != OUTPUT_TYPE for reader in readers):
            continue
        yield Idiom("size", size_label(values[node.name], node, dump), node.name, _closure(dump, {node.name}, is_size))


def size_label(items: tuple[Any, ...], node: Node, dump: Dump) -> str:
    """Sizes in words."""
    shape = dump.inference.types[node.name][0].shape
    text = ", ".join(map(dim_text, items))
    return f"size {text}" if shape == () else f"shape [{text}]"


def _closure(dump: Dump, core: set[str], may_fold: Callable[[Node], bool]) -> tuple[str, ...]:
    """``core`` and every producer that may be folded and that only the group reads, in the order of the dump."""
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
