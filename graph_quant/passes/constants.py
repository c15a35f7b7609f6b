"""Merges equal constants, and adds new ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ..ge import CONST_TYPES, TO_DESC
from .graph import Graph, resolve_replacement
from .shape_functions import STRUCT_FORMATS

Key = tuple[str, int, tuple[int, ...], bytes, bytes]


def run(graph: Graph) -> None:
    """Let all readers of equal constants read the first."""
    first: dict[Key, str] = {}
    for op in graph.nodes_of_type(*CONST_TYPES):
        kept = first.setdefault(_key(op), f"{op.name}:0")
        graph.replace(f"{op.name}:0", kept)


def _key(op: Any) -> Key:
    """What equal constants share: everything but their names and how they are printed."""
    tensor = op.attr["value"].t
    scope = b"".join(
        name.encode() + op.attr[name].SerializeToString(deterministic=True)
        for name in sorted(op.attr)
        if name not in ("value", "_readable_value")
    )
    return op.type, tensor.desc.dtype, tuple(tensor.desc.shape.dim), tensor.data, scope


def get_constant(graph: Graph, dtype: str, numbers: Sequence[int], *, is_scalar: bool = False) -> str:
    """A constant with these integers: an existing one, or a new one."""
    data = struct.pack(f"<{len(numbers)}{STRUCT_FORMATS[dtype]}", *numbers)
    shape = () if is_scalar else (len(numbers),)
    key = TO_DESC[dtype], shape, data
    if not graph.constants:
        graph.constants.update(_plain_constants(graph))
    if key not in graph.constants or graph.constants[key] not in graph.ops:
        graph.constants[key] = _new(graph, dtype, numbers, shape, data)
    # A constant that was replaced must not get readers again.
    return resolve_replacement(graph.replacements, f"{graph.constants[key]}:0")


def _plain_constants(graph: Graph) -> Iterator[tuple[tuple[Any, ...], str]]:
    for op in graph.nodes_of_type("Const"):
        tensor = op.attr["value"].t
        yield (tensor.desc.dtype, tuple(tensor.desc.shape.dim), tensor.data), op.name


def _new(graph: Graph, dtype: str, numbers: Sequence[int], shape: tuple[int, ...], data: bytes) -> str:
    op = graph.add("Const")
    op.type = "Const"
    tensor = op.attr["value"].t
    tensor.data = data
    tensor.desc.dtype = TO_DESC[dtype]
    tensor.desc.layout = "ND"
    tensor.desc.shape.dim.extend(shape)
    op.attr["_readable_value"].s = repr(list(numbers) if shape else numbers[0]).encode()
    op.attr["_output_name_key"].list.s.append(b"")
    op.attr["_output_name_value"].list.i.append(0)
    for name in ("_input_name_key", "_input_name_value"):
        op.attr[name].list.SetInParent()
    op.output_desc.add().CopyFrom(tensor.desc)
    return str(op.name)
