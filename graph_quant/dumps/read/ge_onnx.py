"""Reads ``ge_onnx`` dumps: ONNX in text form, with all fields of a GE node as attributes of an ONNX node."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf import text_format

from ...ge import new_graph, schema
from ..errors import DumpError
from .file_contents import Progress
from .proto import build_message
from .subgraph_roles import assign_calls

TYPES = ("UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS", "GRAPHS")
_DESC = re.compile(r"(?P<side>input|output)_desc_(?P<field>.+):(?P<index>\d{1,5})(?:_(?P<row>\d{1,5}))?$")
_DESC_AS_JSON = re.compile(r"(?P<side>input|output)_desc_(?P<index>\d{1,5})$")
_TENSOR = re.compile(r"(?P<name>.+)_(?P<field>desc_dtype|desc_shape|desc_layout|desc_device_type|data)$")
_ORIGIN = {"origin_shape": "origin_shape", "origin_layout": "origin_format", "origin_dtype": "origin_data_type"}
_FIELDS = {"id", "stream_id", "input_name", "src_name", "src_index", "dst_name", "dst_index", "input_i", "output_i",
           "workspace", "workspace_bytes", "is_input_const"}  # fmt: skip
_SUBGRAPH = "subgraph"


@cache
def onnx_model() -> Any:
    """The part of ONNX's ModelProto that GE writes; other fields are ignored."""
    messages = {
        "Attribute": "name:string=1 f:float=2 i:int64=3 s:bytes=4 g:Graph=5 "
        "floats:float*=6 ints:int64*=7 strings:bytes*=8 type:Kind=9",
        "Node": "name:string=1 op_type:string=2 input:string*=3 output:string*=4 attribute:Attribute*=5",
        "Graph": "name:string=1 node:Node*=2",
        "Model": "graph:Graph=1",
    }
    return build_message("Model", messages, {"Kind": TYPES})


def read_ge_onnx(text: str, progress: Progress) -> tuple[list[Any], list[str]]:
    """Read the graphs, and the names of those whose callers the file does not state."""
    model = onnx_model()()
    try:
        text_format.Merge(text, model, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise DumpError(f"not a GE graph in ONNX's text form, at line {error}") from None
    except (ValueError, TypeError) as error:
        raise DumpError(f"not a GE graph in ONNX's text form: {error}") from None
    progress(0.7)
    graphs: list[Any] = []
    _add_graph(model.graph, model.graph.name, graphs)
    progress(1.0)
    return graphs, assign_calls(graphs)


def _add_graph(source: Any, name: str, graphs: list[Any]) -> None:
    graph = new_graph(name)
    graphs.append(graph)
    for node in source.node:
        inner = next((attribute.g for attribute in node.attribute if attribute.type == TYPES.index("GRAPH")), None)
        if node.op_type == _SUBGRAPH and inner is not None:
            _add_graph(inner, node.name, graphs)
            continue
        op = graph.op.add(name=node.name, type=node.op_type.removeprefix("ge:"))
        op.input.extend(node.input)
        try:
            _read_attributes(op, node.attribute)
        except (ValueError, TypeError, OverflowError) as error:
            raise DumpError(f"{node.name}: its attributes cannot be read: {error}") from None


def _read_attributes(op: Any, attributes: Any) -> None:
    for attribute in attributes:
        name = attribute.name
        if match := _DESC.match(name):
            desc = _get_desc(op, match["side"], int(match["index"]))
            if match["row"] is None:
                _set_desc(desc, match["field"], attribute)
            else:  # a list of lists has an attribute for each
                rows = desc.attr[match["field"].removeprefix("attr_")].list_list_int
                rows.list_list_i.add().list_i.extend(attribute.ints)
        elif match := _DESC_AS_JSON.match(name):
            _set_desc_from_json(_get_desc(op, match["side"], int(match["index"])), attribute.s)
        elif name in ("input_desc_nums", "output_desc_nums"):
            if attribute.i:
                _get_desc(op, name.partition("_")[0], attribute.i - 1)
        elif match := _TENSOR.match(name):
            _set_tensor(op.attr[match["name"]].t, match["field"], attribute)
        elif name in _FIELDS and not _is_set(op, name):
            _set_field(op, name, attribute)
        else:
            _set_attribute(op.attr[name], attribute)


def _get_desc(op: Any, side: str, index: int) -> Any:
    descs = op.input_desc if side == "input" else op.output_desc
    if not 0 <= index < 4096:
        raise ValueError(f"{side} {index} of a node")
    while len(descs) <= index:
        descs.add()
    return descs[index]


def _set_desc(desc: Any, field: str, attribute: Any) -> None:
    if field.startswith("attr_"):
        _set_attribute(desc.attr[field.removeprefix("attr_")], attribute)
    elif field == "dtype":
        desc.dtype = _parse_dtype(attribute.s)
    elif field == "shape":
        desc.shape.SetInParent()
        desc.shape.dim.extend(attribute.ints)
    elif field in _ORIGIN:
        if attribute.s not in (b"DT_UNDEFINED", b"RESERVED"):
            _set_attribute(desc.attr[_ORIGIN[field]], attribute)
    else:
        _set_field(desc, field, attribute)


def _set_desc_from_json(desc: Any, text: bytes) -> None:
    """Read a desc that GE writes as JSON, for nodes with many inputs or outputs."""
    facts = json.loads(text)
    desc.dtype = _parse_dtype(str(facts.get("dtype", "")).encode())
    desc.shape.SetInParent()
    desc.shape.dim.extend(facts.get("shape", ()))
    desc.layout = str(facts.get("layout", ""))
    desc.attr["origin_format"].s = str(facts.get("origin_layout", "")).encode()
    desc.attr["origin_shape"].list.i.extend(facts.get("origin_shape", ()))


def _parse_dtype(name: bytes) -> int:
    words = schema().DataType
    return int(words.Value(name.decode("ascii", "replace"))) if name.decode("ascii", "replace") in words.keys() else 0  # noqa: SIM118


def _set_tensor(tensor: Any, field: str, attribute: Any) -> None:
    if field == "data":
        tensor.data = attribute.s
    elif field == "desc_dtype":
        tensor.desc.dtype = _parse_dtype(attribute.s)
    elif field == "desc_shape":
        tensor.desc.shape.dim.extend(attribute.ints)
    elif field == "desc_layout":
        tensor.desc.layout = attribute.s.decode("utf-8", "backslashreplace")


def _is_set(message: Any, name: str) -> bool:
    return any(field.name == name for field, _ in message.ListFields())


def _set_field(message: Any, name: str, attribute: Any) -> None:
    """Set a field of a node or desc; attributes without such a field are ignored."""
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return
    value = getattr(message, name)
    if hasattr(value, "extend"):
        convert: Callable[[Any], Any] = bool if field.type == field.TYPE_BOOL else int
        texts = [word.decode("utf-8", "backslashreplace") for word in attribute.strings]
        value.extend(texts or [convert(item) for item in attribute.ints])
    elif field.type == field.TYPE_STRING:
        setattr(message, name, attribute.s.decode("utf-8", "backslashreplace"))
    elif field.type == field.TYPE_BOOL:
        setattr(message, name, bool(attribute.i))
    else:
        setattr(message, name, attribute.i)


def _set_attribute(target: Any, attribute: Any) -> None:
    kind = TYPES[attribute.type] if attribute.type < len(TYPES) else ""
    if kind == "FLOAT":
        target.f = attribute.f
    elif kind == "INT":
        target.i = attribute.i
    elif kind == "STRING":
        target.s = attribute.s
    elif kind in ("FLOATS", "INTS", "STRINGS"):
        target.list.SetInParent()
        target.list.f.extend(attribute.floats)
        target.list.i.extend(attribute.ints)
        target.list.s.extend(attribute.strings)
