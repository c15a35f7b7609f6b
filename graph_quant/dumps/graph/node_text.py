"""A node in text: name, type, inputs, attributes, results, source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, UNDEFINED, Node, Source, format_attribute, printable
from .placement import placement
from .shapes import Dim, dim_text

if TYPE_CHECKING:
    from ..analyse.cost import Costs
    from ..dump import Dump

LONGEST_NAME = 120
_LONGEST_EXPRESSION = 160


def node_line(
    dump: Dump, node: Node, costs: Costs | None = None, note: str = "", sizes: Mapping[str, str] | None = None
) -> str:
    """Name, type, inputs, attributes, results, source; ``note`` stands behind the costs.

    ``sizes`` are shapes in words, by the node that computes them: they stand in the edges they serve.
    """
    folded = sizes or {}
    inputs = [
        f"{printable(edge.name, LONGEST_NAME)}={folded.get(edge.node) or reference(dump, edge.node, edge.output)}"
        for edge in node.inputs
        if edge.node
    ]
    waits = [f"after {printable(name, LONGEST_NAME)}" for name in node.controls]
    attributes = [f"{name}={value}" for name, value in dump.attributes(node).items()]
    attributes += [
        f"{call.role}=<{printable(call.graph.name, LONGEST_NAME)}>" for call in dump.calls.get(node.name, ())
    ]
    if node.type in CONST_TYPES:
        attributes.insert(0, constant_text(node))
    arguments = "; ".join(", ".join(part) for part in (inputs + waits, attributes) if part)
    line = f"{printable(node.name, LONGEST_NAME)}: {printable(node.type, LONGEST_NAME)}({arguments})"
    if results := result_text(dump, node):
        line += f" -> {results}"
    for remark in remarks(dump, node):
        line += f"  ! {remark}"
    if costs is not None:
        cost = costs.nodes[node.name]
        line += f"  [{quantity(cost.bytes, 'B')}, {quantity(cost.flops, 'FLOP')}]"
    return f"{line}{note}{placement(dump, node)}{source_text(node.source)}"


def constant_text(node: Node) -> str:
    """The value of a constant as TorchAir notes it, or how large it is."""
    if "_readable_value" in node.proto.attr:
        return format_attribute("_readable_value", node.proto.attr["_readable_value"])
    size = len(node.proto.attr["value"].t.data) if "value" in node.proto.attr else 0
    return f"{size} bytes" if size else "no bytes"


def reference(dump: Dump, name: str, output: int) -> str:
    """An output of a node, by name where it has several; of a small constant with its value."""
    node = dump.nodes[name]
    text = printable(name, LONGEST_NAME)
    if len(node.proto.output_desc) > 1:
        text += f".{printable(node.proto.output_desc[output].name or str(output), LONGEST_NAME)}"
    if node.type in CONST_TYPES and "_readable_value" in node.proto.attr:
        value = constant_text(node)
        text += f" {value}" if len(value) <= 24 else ""
    return text


def result_text(dump: Dump, node: Node) -> str:
    """The dtype and shape of every output, by name where there are several."""
    types = dump.inference.types[node.name]
    if all(found.dtype == UNDEFINED and found.shape is None for found in types):
        return ""
    if len(types) == 1 and node.name in dump.inference.values and node.type not in CONST_TYPES:
        items = ", ".join(map(dim_text, dump.inference.values[node.name]))
        return f"{types[0]} = {items}" if types[0].shape == () else f"{types[0]} = [{items}]"
    if len(types) < 2:
        return "".join(map(str, types))
    names = [desc.name for desc in node.proto.output_desc] + [""] * len(types)
    return ", ".join(
        f"{printable(name, LONGEST_NAME) or index}: {t}"
        for index, (name, t) in enumerate(zip(names, types, strict=False))
    )


def remarks(dump: Dump, node: Node) -> list[str]:
    """Where a desc disagrees, and why a type is only what a desc says."""
    inference = dump.inference
    failed = inference.failures.get(node.name)
    return [
        *(printable(text) for text in inference.disagreements.get(node.name, ())),
        *([f"not inferred: {printable(failed, _LONGEST_EXPRESSION)}"] if failed else []),
    ]


def source_text(source: Source) -> str:
    """Where a node comes from, as a remark."""
    text = printable(str(source), 200)
    return f"  # {text}" if text else ""


def quantity(amount: Dim | None, unit: str) -> str:
    """A number with a prefix, an expression as it is, or what is missing."""
    if amount is None:
        return f"? {unit}"
    if not isinstance(amount, int):
        text = dim_text(amount)
        return f"{text} {unit}" if len(text) <= _LONGEST_EXPRESSION else f"(a long expression) {unit}"
    scaled = float(amount)
    for prefix in ("", "k", "M", "G", "T", "P"):
        if scaled < 1000 or prefix == "P":
            return f"{amount} {unit}" if not prefix else f"{scaled:.3g} {prefix}{unit}"
        scaled /= 1000
    return f"{amount} {unit}"
