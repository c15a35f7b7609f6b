"""Reads ``ge_readable`` dumps: one line per node, without dtypes, shapes and control edges."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...ge import CONST_TYPES, OUTPUT_TYPE, TO_ATTRIBUTE, new_graph, of_registration, registration, set_attribute
from ..errors import DumpError
from .file_contents import Progress

_GRAPH = re.compile(r'graph\("(?P<name>.*)"\):$')
_NODE = re.compile(r"%(?P<name>.+?) : \[#?users=\d+\] = Node\[type=(?P<type>[^\]]+)\] \((?P<body>.*)\)$")
_ELEMENT = re.compile(r"%(?P<name>.+?) : \[#?users=\d+\] = get_element\[node=%(?P<node>.+)\]\((?P<index>\d{1,4})\)$")
_RETURN = re.compile(r"return \((?P<body>.*)\)$")
_BODY = re.compile(r"(?:inputs = \((?P<inputs>.*?)\))?(?:, )?(?:attrs = \{(?P<attributes>.*)\})?$")
_NUMBERED = re.compile(r"(?P<name>.*)_(?P<index>\d{1,5})$")
_OPENING, _CLOSING = "([{", ")]}"


def read_ge_readable(text: str, progress: Progress) -> list[Any]:
    """Read the graphs of the file."""
    graphs: list[_GraphReader] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if match := _GRAPH.match(stripped):
            graphs.append(_GraphReader(match["name"]))
        elif stripped:
            if not graphs:
                raise DumpError(f"line {number} stands before any graph")
            try:
                graphs[-1].add(stripped)
            except DumpError as error:
                raise DumpError(f"line {number}: {error}") from None
        progress(number / len(lines) if number % 512 == 0 else 0.0)
    return [reader.finished() for reader in graphs]


class _GraphReader:
    """Reads one graph, line by line."""

    def __init__(self, name: str) -> None:
        self.graph = new_graph(name)
        self._tensors: dict[str, str] = {}
        self._ops: dict[str, Any] = {}

    def add(self, line: str) -> None:
        if match := _NODE.match(line):
            self._node(match["name"], match["type"], match["body"])
        elif match := _ELEMENT.match(line):
            self._element(match["name"], match["node"], int(match["index"]))
        elif match := _RETURN.match(line):
            op = self.graph.op.add(name="NetOutput", type=OUTPUT_TYPE)
            for index, part in enumerate(split_fields(match["body"])):
                self._input(op, f"input{index}", part.partition("=%")[2] or part.removeprefix("%"))
        else:
            raise DumpError(f"not a node of a readable dump: {line[:80]}")

    def finished(self) -> Any:
        for op in self.graph.op:
            declared = registration(op.type)
            names = [output.name for output in declared.outputs if output.kind != "dynamic"] if declared else []
            if len(names) == len(op.output_desc):
                for name, desc in zip(names, op.output_desc, strict=True):
                    desc.name = name
        return self.graph

    def _node(self, name: str, kind: str, body: str) -> None:
        parts = _BODY.match(body)
        if parts is None:
            raise DumpError(f"{name}: its inputs and attributes cannot be parsed")
        op = self.graph.op.add(name=name, type=kind)
        op.output_desc.add()
        self._ops[name] = op
        self._tensors[name] = f"{name}:0"
        for part in split_fields(parts["inputs"] or ""):
            key, _, tensor = part.partition("=%")
            self._input(op, _input_name(kind, key), tensor)
        for part in split_fields(parts["attributes"] or ""):
            key, colon, value = part.partition(": ")
            if not colon:
                raise DumpError(f"{name}: {part[:40]} is not an attribute")
            _set_attribute(op, key, value)

    def _element(self, name: str, node: str, index: int) -> None:
        op = self._ops.get(node)
        if op is None:
            raise DumpError(f"{name} is a result of {node}, which no line before it computes")
        while len(op.output_desc) <= index:
            op.output_desc.add()
        self._tensors[name] = f"{node}:{index}"

    def _input(self, op: Any, name: str, tensor: str) -> None:
        if tensor not in self._tensors:
            raise DumpError(f"{op.name}: its input {name} is {tensor or 'nothing'}, which no line before it computes")
        op.input_desc.add(name=name)
        op.input.append(self._tensors[tensor])


def _input_name(kind: str, key: str) -> str:
    """The input name as in other dumps, where the number of a dynamic input follows without ``_``."""
    match = _NUMBERED.match(key)
    declared = registration(kind)
    if match is None or (declared and key in {parameter.name for parameter in declared.inputs}):
        return key
    return f"{match['name'].lstrip('_')}{match['index']}"


def _set_attribute(op: Any, key: str, value: str) -> None:
    if value.startswith("%"):
        op.subgraph_name.append(value[1:])
    elif op.type in CONST_TYPES and key == "value":
        op.attr["_readable_value"].s = value.replace(" ", ", ").replace(", ..., ", ", …, ").encode()
    elif value.startswith("DT_"):
        op.attr[key].dt = TO_ATTRIBUTE.get(of_registration(value), TO_ATTRIBUTE["undefined"])
    else:
        set_attribute(op, key, _attribute_type(op.type, key), _parse_value(value))


def _attribute_type(kind: str, key: str) -> str:
    declared = registration(kind)
    return next((attribute.type for attribute in declared.attributes if attribute.name == key), "") if declared else ""


def _parse_value(text: str) -> Any:
    if text.startswith("{") and text.endswith("}"):
        return [_parse_value(part) for part in split_fields(text[1:-1])]
    if text.startswith('"'):
        return text.strip('"')
    if text in ("true", "false"):
        return text == "true"
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return text


def split_fields(text: str) -> Iterator[str]:
    """Split at commas outside brackets and quotes."""
    depth, quoted, start = 0, False, 0
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted and char in _OPENING:
            depth += 1
        elif not quoted and char in _CLOSING:
            depth -= 1
        elif char == "," and depth <= 0 and not quoted:
            yield text[start:index].strip()
            start = index + 1
    if text[start:].strip():
        yield text[start:].strip()
