"""Writes ``ge_onnx``: ONNX in text form, with the fields of GE's nodes as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import text_format

from ...ge import schema
from ..read.ge_onnx import TYPES, onnx_model
from .to_ge_proto import describe_graph

if TYPE_CHECKING:
    from ..dump import Dump

_HEAD = 'ir_version: 6\nproducer_name: "GE"\n'
_FIELDS = ("size", "weight_size", "real_dim_cnt", "data_offset")
_ORIGIN = {"origin_shape": "origin_shape", "origin_format": "origin_layout", "origin_data_type": "origin_dtype"}


def to_ge_onnx(dump: Dump) -> str:
    """Format a dump as GE's ``ge_onnx``.

    Args:
        dump: The dump.

    Returns:
        The text of the file; called graphs are in nodes of type ``subgraph``.

    Examples:
        >>> Path("ge_onnx_graph.pbtxt").write_text(to_ge_onnx(dump))
    """
    model = onnx_model()()
    _fill_graph(model.graph, dump)
    for graph in list(dump.graphs())[1:]:
        node = model.graph.node.add(name=graph.name, op_type="subgraph")
        attribute = node.attribute.add(name="graph", type=TYPES.index("GRAPH"))
        _fill_graph(attribute.g, graph)
    return _HEAD + text_format.MessageToString(model)


def _fill_graph(target: Any, dump: Dump) -> None:
    target.name = dump.name
    for op in describe_graph(dump).op:
        node = target.node.add(name=op.name, op_type=f"ge:{op.type}")
        node.input.extend(op.input)
        node.output.extend(f"{op.name}:{index}" for index in range(len(op.output_desc)))
        _add_fields(node, op)
        for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
            node.attribute.add(name=f"{side}_desc_nums", type=TYPES.index("INT"), i=len(descs))
            for index, desc in enumerate(descs):
                _add_desc(node, f"{side}_desc_", f":{index}", desc)
        for name in sorted(op.attr):
            _add_attribute(node, name, op.attr[name])
        facts = sorted(node.attribute, key=lambda attribute: attribute.name)
        del node.attribute[:]
        node.attribute.extend(facts)


def _add_fields(node: Any, op: Any) -> None:
    for name in ("id", "stream_id"):
        node.attribute.add(name=name, type=TYPES.index("INT"), i=getattr(op, name))
    for name in ("input_i", "output_i", "workspace", "workspace_bytes", "src_index", "dst_index"):
        node.attribute.add(name=name, type=TYPES.index("INTS"), ints=getattr(op, name))


def _add_desc(node: Any, prefix: str, suffix: str, desc: Any) -> None:
    words = schema().DataType
    node.attribute.add(name=f"{prefix}dtype{suffix}", type=TYPES.index("STRING"), s=words.Name(desc.dtype).encode())
    node.attribute.add(name=f"{prefix}layout{suffix}", type=TYPES.index("STRING"), s=desc.layout.encode())
    if desc.HasField("shape"):
        node.attribute.add(name=f"{prefix}shape{suffix}", type=TYPES.index("INTS"), ints=desc.shape.dim)
    for name in _FIELDS:
        if getattr(desc, name):
            node.attribute.add(name=f"{prefix}{name}{suffix}", type=TYPES.index("INT"), i=getattr(desc, name))
    for name in sorted(desc.attr):
        if name in _ORIGIN:
            _add_attribute(node, f"{prefix}{_ORIGIN[name]}{suffix}", desc.attr[name])
        else:
            _add_attribute(node, f"{prefix}attr_{name}{suffix}", desc.attr[name])


def _add_attribute(node: Any, name: str, attribute: Any) -> None:
    """Add an attribute, unless ONNX has no such kind."""
    kind = attribute.WhichOneof("value")
    if kind == "s":
        node.attribute.add(name=name, type=TYPES.index("STRING"), s=attribute.s)
    elif kind in ("i", "b"):
        node.attribute.add(name=name, type=TYPES.index("INT"), i=int(getattr(attribute, kind)))
    elif kind == "f":
        node.attribute.add(name=name, type=TYPES.index("FLOAT"), f=attribute.f)
    elif kind == "t":
        _add_tensor(node, name, attribute.t)
    elif kind == "list":
        items = attribute.list
        if items.s:
            node.attribute.add(name=name, type=TYPES.index("STRINGS"), strings=items.s)
        elif items.f:
            node.attribute.add(name=name, type=TYPES.index("FLOATS"), floats=items.f)
        elif items.i or items.b:
            node.attribute.add(name=name, type=TYPES.index("INTS"), ints=[*items.i, *map(int, items.b)])
    elif kind == "list_list_int":
        for row, values in enumerate(attribute.list_list_int.list_list_i):
            node.attribute.add(name=f"{name}_{row}", type=TYPES.index("INTS"), ints=values.list_i)


def _add_tensor(node: Any, name: str, tensor: Any) -> None:
    text = TYPES.index("STRING")
    dtype = schema().DataType.Name(tensor.desc.dtype).encode()
    node.attribute.add(name=f"{name}_desc_dtype", type=text, s=dtype)
    node.attribute.add(name=f"{name}_desc_layout", type=text, s=tensor.desc.layout.encode())
    node.attribute.add(name=f"{name}_desc_shape", type=TYPES.index("INTS"), ints=tensor.desc.shape.dim)
    node.attribute.add(name=f"{name}_data", type=text, s=tensor.data)
