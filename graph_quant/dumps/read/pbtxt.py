"""Reads ``pbtxt`` dumps: TensorFlow's NodeDef, with GE's attributes and descs as text inside strings."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from ...ge import new_graph, schema
from ..errors import DumpError
from .file_contents import Progress
from .txt import chunks, merge_text


@cache
def _outer_message() -> Any:
    """The outer message. Attributes are a list and not a map: the order of descs is the order of inputs."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="graph_quant/pbtxt.proto", package="graph_quant", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, bool]) -> None:
        declared = file.message_type.add(name=name)
        for number, (field_name, kind, repeated) in enumerate(fields, 1):
            label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            added = declared.field.add(name=field_name, number=number, type=kind, label=label)
            if kind == field.TYPE_MESSAGE:
                added.type_name = f".graph_quant.{field_name.capitalize()}"

    message("Value", ("s", field.TYPE_BYTES, False))
    message("Attr", ("key", field.TYPE_STRING, False), ("value", field.TYPE_MESSAGE, False))
    node = ("name", field.TYPE_STRING, False), ("op", field.TYPE_STRING, False), ("input", field.TYPE_STRING, True)
    message("Node", *node, ("attr", field.TYPE_MESSAGE, True))
    message("Graph", ("node", field.TYPE_MESSAGE, True))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("graph_quant.Graph"))


def read_pbtxt(text: str, progress: Progress) -> Any:
    """Parse a GraphDef; a pbtxt lacks the attributes of the graph."""
    outer = _outer_message()()
    try:
        for start, end in chunks(text):
            text_format.Merge(text[start:end], outer)
            progress(0.5 * end / len(text))
    except (text_format.ParseError, ValueError, TypeError):
        outer = _outer_message()()
        merge_text(text, outer)
    graph = new_graph()
    inner = _InnerParser()
    for number, node in enumerate(outer.node):
        op = graph.op.add(name=node.name, type=node.op)
        op.input.extend(f"{name[1:]}:-1" if name.startswith("^") else name for name in node.input)
        for attr in node.attr:
            inner.add(op, attr.key, attr.value.s)
        if number % 512 == 0:
            progress(0.5 + 0.5 * number / len(outer.node))
    return graph


class _InnerParser:
    """Parses the strings; equal ones, which are frequent, only once."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[bool, bytes], Any] = {}

    def add(self, op: Any, key: str, text: bytes) -> None:
        if key.startswith("[i]"):
            op.input_desc.add().CopyFrom(self._message(op, key, text, is_desc=True))
        elif key.startswith("[o]"):
            op.output_desc.add().CopyFrom(self._message(op, key, text, is_desc=True))
        else:
            op.attr[key].CopyFrom(self._message(op, key, text, is_desc=False))

    def _message(self, op: Any, key: str, text: bytes, *, is_desc: bool) -> Any:
        message = self._parsed.get((is_desc, text))
        if message is None:
            message = schema().TensorDescriptor() if is_desc else schema().AttrDef()
            try:
                merge_text(text.decode("utf-8"), message)
            except (DumpError, UnicodeError) as error:
                raise DumpError(f"{op.name}: the attribute {key} cannot be read: {error}") from None
            self._parsed[is_desc, text] = message
        return message
