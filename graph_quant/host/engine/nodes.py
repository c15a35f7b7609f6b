"""A plain view of the nodes of a GE graph: inputs by name, attributes as Python values, and where they came from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ...ge.torch_dtypes import from_desc
from .errors import GraphError


class Edge(NamedTuple):
    """One output of a node."""

    node: str
    output: int


class Origin(NamedTuple):
    """The FX node that a GE node was lowered from, and the Python line behind it, where known."""

    fx_node: str
    line: str


@dataclass(frozen=True)
class GeNode:
    """A node of a GE graph. ``inputs`` leaves out what was not fed; ``controls`` only orders execution."""

    name: str
    type: str
    inputs: Mapping[str, Edge]
    controls: tuple[str, ...]
    attributes: Mapping[str, Any]
    output_count: int
    origin: Origin | None = None
    proto: Any = field(default=None, repr=False, compare=False)

    def describe(self) -> str:
        """Node, FX node and Python line in one phrase, as messages show them."""
        text = f"GE node {self.name!r} ({self.type})"
        if self.origin is not None:
            text += f", FX node {self.origin.fx_node!r}"
            if self.origin.line:
                text += f", {self.origin.line}"
        return text


def read_nodes(graph: Any, origins: Mapping[str, Origin] | None = None) -> list[GeNode]:
    """The nodes of a GraphDef (or of TorchAir's GeGraph) in file order."""
    known = origins or {}
    return [_read_node(op, known.get(op.name)) for op in graph.op]


def _read_node(op: Any, origin: Origin | None) -> GeNode:
    controls: list[str] = []
    data: list[Edge | None] = []
    for reference in op.input:
        name, _, index = reference.rpartition(":")
        if not reference:
            data.append(None)
        elif index == "-1":
            controls.append(name)
        else:
            data.append(Edge(name, int(index)))
    names = [desc.name for desc in op.input_desc]
    inputs = {name: edge for name, edge in zip(names, data, strict=False) if edge is not None}
    try:
        attributes = {key: decode_attribute(value) for key, value in op.attr.items() if key not in _NAME_TABLES}
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(f"GE node {op.name!r} ({op.type}): {error}") from None
    return GeNode(
        op.name, op.type, inputs, tuple(controls), attributes, len(op.output_desc), origin or _origin_of(op), op
    )


# TorchAir repeats the names of descs in these; a node has them in its descs already.
_NAME_TABLES = frozenset(("_input_name_key", "_input_name_value", "_output_name_key", "_output_name_value"))


def _origin_of(op: Any) -> Origin | None:
    """The FX node from the tensor name in a desc; a graph read from a file knows no more."""
    for desc in op.output_desc:
        if "_fx_tensor_name" in desc.attr:
            return Origin(desc.attr["_fx_tensor_name"].s.decode().partition("-")[0], "")
    return None


def decode_attribute(attribute: Any) -> Any:
    """An AttrDef as a Python value; tensors decode to torch tensors, dtypes stay ``ge::DataType`` numbers."""
    kind = attribute.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(attribute, kind)
    if kind == "s":
        return value.decode(errors="replace")
    if kind == "list":
        return _decode_list(value)
    if kind == "t":
        return decode_tensor(value)
    if kind == "list_list_int":
        return [list(row.list_i) for row in value.list_list_i]
    if kind == "list_list_float":
        return [list(row.list_f) for row in value.list_list_f]
    return value


def _decode_list(value: Any) -> list[Any]:
    if value.s:
        return [item.decode(errors="replace") for item in value.s]
    return next((list(items) for items in _lists_of(value) if len(items)), [])


def _lists_of(value: Any) -> Iterator[Any]:
    yield value.i
    yield value.f
    yield value.b
    yield value.dt


def decode_tensor(tensor: Any) -> torch.Tensor:
    """A TensorDef as a torch tensor. One that claims other elements than it carries is refused."""
    dtype = from_desc(tensor.desc.dtype)
    shape = tuple(tensor.desc.shape.dim)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or len(tensor.data) != count * dtype.itemsize:
        name = str(dtype).removeprefix("torch.")
        raise ValueError(f"a tensor claims to be {name}{list(shape)} and carries {len(tensor.data)} bytes")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(shape)
