"""A node as text: name, type, inputs, attributes, results, source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, UNDEFINED, Node, Source, format_attribute, printable
from .placement import read_placement
from .shapes import Dim, format_dim

if TYPE_CHECKING:
    from ..analyse.cost import Costs
    from ..dump import Dump

LONGEST_NAME = 120
_LONGEST_EXPRESSION = 160


def format_node(
    dump: Dump, node: Node, costs: Costs | None = None, note: str = "", sizes: Mapping[str, str] | None = None
) -> str:
    """Format a node as one line; ``note`` follows the costs.

    ``sizes`` maps nodes that compute shapes to their text, which replaces the node's name in the inputs that read it.
    """
    folded = sizes or {}
    inputs = [
        f"{printable(edge.name, LONGEST_NAME)}={folded.get(edge.node) or format_edge(dump, edge.node, edge.output)}"
        for edge in node.inputs
        if edge.node
    ]
    waits = [f"after {printable(name, LONGEST_NAME)}" for name in node.controls]
    attributes = [f"{name}={value}" for name, value in dump.attributes(node).items()]
    attributes += [
        f"{call.role}=<{printable(call.graph.name, LONGEST_NAME)}>" for call in dump.calls.get(node.name, ())
    ]
    if node.type in CONST_TYPES:
        attributes.insert(0, format_constant(node))
    arguments = "; ".join(", ".join(part) for part in (inputs + waits, attributes) if part)
    line = f"{printable(node.name, LONGEST_NAME)}: {printable(node.type, LONGEST_NAME)}({arguments})"
    if results := format_results(dump, node):
        line += f" -> {results}"
    for remark in list_remarks(dump, node):
        line += f"  ! {remark}"
    if costs is not None:
        cost = costs.nodes[node.name]
        line += f"  [{format_quantity(cost.bytes, 'B')}, {format_quantity(cost.flops, 'FLOP')}]"
    return f"{line}{note}{read_placement(dump, node)}{format_source(node.source)}"


def format_constant(node: Node) -> str:
    """Format the value of a constant as TorchAir records it, or its size in bytes."""
    if "_readable_value" in node.proto.attr:
        return format_attribute("_readable_value", node.proto.attr["_readable_value"])
    size = len(node.proto.attr["value"].t.data) if "value" in node.proto.attr else 0
    return f"{size} bytes" if size else "no bytes"


def format_edge(dump: Dump, name: str, output: int) -> str:
    """Format the source of an edge: the node, the output if it has several, the value of a small constant."""
    node = dump.nodes[name]
    text = printable(name, LONGEST_NAME)
    if len(node.proto.output_desc) > 1:
        text += f".{printable(node.proto.output_desc[output].name or str(output), LONGEST_NAME)}"
    if node.type in CONST_TYPES and "_readable_value" in node.proto.attr:
        value = format_constant(node)
        text += f" {value}" if len(value) <= 24 else ""
    return text


def format_results(dump: Dump, node: Node) -> str:
    """Format dtype and shape of every output, with names if there are several."""
    types = dump.inference.types[node.name]
    if all(tensor.dtype == UNDEFINED and tensor.shape is None for tensor in types):
        return ""
    if len(types) == 1 and node.name in dump.inference.values and node.type not in CONST_TYPES:
        items = ", ".join(map(format_dim, dump.inference.values[node.name]))
        return f"{types[0]} = {items}" if types[0].shape == () else f"{types[0]} = [{items}]"
    if len(types) < 2:
        return "".join(map(str, types))
    names = [desc.name for desc in node.proto.output_desc] + [""] * len(types)
    return ", ".join(
        f"{printable(name, LONGEST_NAME) or index}: {t}"
        for index, (name, t) in enumerate(zip(names, types, strict=False))
    )


def list_remarks(dump: Dump, node: Node) -> list[str]:
    """List descs that disagree with the inferred type, and why a type was not inferred."""
    inference = dump.inference
    failed = inference.failures.get(node.name)
    return [
        *(printable(text) for text in inference.disagreements.get(node.name, ())),
        *([f"not inferred: {printable(failed, _LONGEST_EXPRESSION)}"] if failed else []),
    ]


def format_source(source: Source) -> str:
    """Format the source of a node as a comment."""
    text = printable(str(source), 200)
    return f"  # {text}" if text else ""


def format_quantity(value: Dim | None, unit: str) -> str:
    """Format a quantity with an SI prefix.

    Args:
        value: A number, a symbolic expression, or None if unknown.
        unit: The unit, such as ``B`` or ``FLOP``.

    Returns:
        For example ``1.5 MB``, ``2*s0 B`` or ``? B``.

    Examples:
        >>> format_quantity(1_500_000, "B")
        '1.5 MB'
    """
    if value is None:
        return f"? {unit}"
    if not isinstance(value, int):
        text = format_dim(value)
        return f"{text} {unit}" if len(text) <= _LONGEST_EXPRESSION else f"(a long expression) {unit}"
    scaled = float(value)
    for prefix in ("", "k", "M", "G", "T", "P"):
        if scaled < 1000 or prefix == "P":
            return f"{value} {unit}" if not prefix else f"{scaled:.3g} {prefix}{unit}"
        scaled /= 1000
    return f"{value} {unit}"
