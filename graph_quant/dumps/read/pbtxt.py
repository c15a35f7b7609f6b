"""Reads ``pbtxt`` dumps: TensorFlow's NodeDef, with GE's attributes and descs as text inside strings."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...ge import new_graph, schema
from ..errors import DumpError
from .file_contents import Progress
from .proto import build_message
from .txt import merge_text, parse_text


@cache
def _outer_message() -> Any:
    """The outer message. Attributes are a list and not a map: the order of descs is the order of inputs."""
    messages = {
        "Value": "s:bytes=1",
        "Attr": "key:string=1 value:Value=2",
        "Node": "name:string=1 op:string=2 input:string*=3 attr:Attr*=4",
        "Graph": "node:Node*=1",
    }
    return build_message("Graph", messages)


def read_pbtxt(text: str, progress: Progress) -> Any:
    """Parse a GraphDef; a pbtxt lacks the attributes of the graph."""
    outer = parse_text(text, _outer_message(), lambda share: progress(0.5 * share))
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
