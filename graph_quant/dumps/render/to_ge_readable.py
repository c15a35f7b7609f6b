"""Writes ``ge_readable``: one line per node, without dtypes, shapes and control edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from ...ge import (
    CONST_TYPES,
    OF_ATTRIBUTE,
    OUTPUT_TYPE,
    UNDEFINED,
    Edge,
    Node,
    list_attributes,
    registration,
    to_python,
)
from ..analyse.format_coverage import printed_constant

if TYPE_CHECKING:
    from ..dump import Dump

_SPELLED = {"float32": "FLOAT", "float64": "DOUBLE", "bfloat16": "BF16"}


def to_ge_readable(dump: Dump) -> str:
    """Format a dump as GE's ``ge_readable``.

    Args:
        dump: The dump.

    Returns:
        The text of the file; called graphs follow their callers.

    Examples:
        >>> print(to_ge_readable(dump))
    """
    return "\n".join("\n".join(_GraphWriter(graph).lines()) + "\n" for graph in dump.graphs())


class _GraphWriter:
    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._results: dict[tuple[str, int], str] = {}
        numbers = count()
        for node in dump.order:
            several = len(node.proto.output_desc) > 1
            for index in range(len(node.proto.output_desc)):
                number = next(numbers) if several else 0
                name = ("ret" if number == 0 else f"ret_{number}") if several else node.name
                self._results[node.name, index] = name

    def lines(self) -> Iterator[str]:
        yield f'graph("{self._dump.name}"):'
        for node in self._dump.order:
            if node.type != OUTPUT_TYPE:
                yield from self._node(node)
        for node in self._dump.order:
            if node.type == OUTPUT_TYPE:
                results = [self._result(edge) for edge in node.inputs if edge.node]
                named = [f"output_{index}={result}" for index, result in enumerate(results)]
                yield ""
                yield f"  return ({', '.join(named if len(results) > 1 else results)})"

    def _node(self, node: Node) -> Iterator[str]:
        readers = Counter(reader.inputs[position].output for reader, position in self._dump.consumers[node.name])
        inputs = [f"{_numbered_name(node, edge.name)}={self._result(edge)}" for edge in node.inputs if edge.node]
        attributes = [f"{call.role}: %{call.graph.name}" for call in self._dump.calls.get(node.name, ())]
        attributes += [f"{name}: {text}" for name, text in _attributes(node)]
        body = [f"inputs = ({', '.join(inputs)})"] if inputs else []
        body += [f"attrs = {{{', '.join(attributes)}}}"] if attributes else []
        users = len(node.proto.output_desc)
        yield f"  %{node.name} : [#users={users}] = Node[type={node.type}] ({', '.join(body)})"
        if users > 1:
            for index in range(users):
                element = f"get_element[node=%{node.name}]({index})"
                yield f"  %{self._results[node.name, index]} : [#users={readers[index]}] = {element}"

    def _result(self, edge: Edge) -> str:
        return f"%{self._results.get((edge.node, edge.output), edge.node)}"


def _numbered_name(node: Node, name: str) -> str:
    """Put an underscore between the name of a dynamic input and its number, as GE does."""
    declared = registration(node.type)
    bare = name.rstrip("0123456789")
    dynamic = {parameter.name for parameter in declared.inputs if parameter.kind == "dynamic"} if declared else {bare}
    return f"{bare}_{name[len(bare) :]}" if bare in dynamic and bare != name else name


def _attributes(node: Node) -> Iterator[tuple[str, str]]:
    declared = registration(node.type)
    names = (
        [attribute.name for attribute in declared.attributes]
        if declared
        else list_attributes(node.proto, declared=True)
    )
    if node.type in CONST_TYPES:
        value = printed_constant(node)
        if value is not None:
            yield "value", value
        return
    if node.type == "Data" and "index" not in names:
        names.append("index")
    for name in names:
        if name in node.proto.attr and (text := _attribute_text(node.proto.attr[name])) not in ("", '""'):
            yield name, text


def _attribute_text(attribute: Any) -> str:
    kind = attribute.WhichOneof("value")
    value = to_python(attribute)
    if kind == "dt":
        word = OF_ATTRIBUTE.get(value, UNDEFINED)
        return f"DT_{_SPELLED.get(word, word.upper())}"
    if isinstance(value, list):
        return f"{{{', '.join(map(_item_text, value))}}}" if value else ""
    return _item_text(value) if kind in ("i", "b", "f", "s") else ""


def _item_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6f}"
    return f'"{value}"' if isinstance(value, str) else str(value)
