"""A graph in text: one line a node, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge.attributes import in_words, visible
from ...ge.errors import printable
from ...ge.graph import CONST_TYPES, INPUT_TYPES, Node, Source
from ..analyse.cost import Costs
from ..graph.idioms import Idiom
from ..graph.shapes import Dim, dim_text

if TYPE_CHECKING:
    from ..dump import Dump

_LONGEST_NAME = 120
_LONGEST_EXPRESSION = 160


def node_lines(dump: Dump, costs: Costs | None = None, *, fold: bool = True) -> Iterator[str]:
    """One line for every node, producers first; with ``fold`` one line for every idiom."""
    folded = {name: idiom for idiom in dump.idioms for name in idiom.members} if fold else {}
    for node in dump.order:
        idiom = folded.get(node.name)
        if idiom is None:
            yield node_line(dump, node, costs)
        elif node.name == idiom.head:
            yield _idiom_line(dump, idiom)


def node_line(dump: Dump, node: Node, costs: Costs | None = None) -> str:
    """Name, type, inputs, attributes, results, source."""
    inputs = [
        f"{printable(edge.name, _LONGEST_NAME)}={_reference(dump, edge.node, edge.output)}"
        for edge in node.inputs
        if edge.node
    ]
    waits = [f"after {printable(name, _LONGEST_NAME)}" for name in node.controls]
    attributes = [f"{name}={value}" for name, value in visible(node.proto).items()]
    if node.type in CONST_TYPES:
        attributes.insert(0, constant_text(node))
    arguments = "; ".join(", ".join(part) for part in (inputs + waits, attributes) if part)
    line = f"{printable(node.name, _LONGEST_NAME)}: {printable(node.type, _LONGEST_NAME)}({arguments})"
    if results := result_text(dump, node):
        line += f" -> {results}"
    for remark in remarks(dump, node):
        line += f"  ! {remark}"
    if costs is not None:
        cost = costs.nodes[node.name]
        line += f"  [{quantity(cost.bytes, 'B')}, {quantity(cost.flops, 'FLOP')}]"
    return line + _source_text(node.source)


def _idiom_line(dump: Dump, idiom: Idiom) -> str:
    head = dump.nodes[idiom.head]
    members = set(idiom.members)
    outside: dict[str, None] = {}
    for name in idiom.members:
        for edge in dump.nodes[name].inputs:
            if edge.node and edge.node not in members:
                outside[_reference(dump, edge.node, edge.output)] = None
    kinds = Counter(dump.nodes[name].type for name in idiom.members)
    folded = ", ".join(f"{times} {kind}" if times > 1 else kind for kind, times in kinds.items())
    result = dump.inference.types[head.name][0]
    line = f"{printable(head.name, _LONGEST_NAME)}: {idiom.label}({', '.join(outside)}) -> {result}"
    return f"{line}  = {len(idiom.members)} nodes: {folded}{_source_text(head.source)}"


def constant_text(node: Node) -> str:
    """The value of a constant as TorchAir notes it, or how large it is."""
    if "_readable_value" in node.proto.attr:
        return in_words("_readable_value", node.proto.attr["_readable_value"])
    return f"{len(node.proto.attr['value'].t.data)} bytes"


def _reference(dump: Dump, name: str, output: int) -> str:
    node = dump.nodes[name]
    text = printable(name, _LONGEST_NAME)
    if len(node.proto.output_desc) > 1:
        text += f".{printable(node.proto.output_desc[output].name or str(output), _LONGEST_NAME)}"
    if node.type in CONST_TYPES and "_readable_value" in node.proto.attr:
        value = constant_text(node)
        text += f" {value}" if len(value) <= 24 else ""
    return text


def result_text(dump: Dump, node: Node) -> str:
    """The dtype and shape of every output, by name where there are several."""
    types = dump.inference.types[node.name]
    if len(types) == 1 and node.name in dump.inference.values and node.type not in CONST_TYPES:
        items = ", ".join(map(dim_text, dump.inference.values[node.name]))
        return f"{types[0]} = {items}" if types[0].shape == () else f"{types[0]} = [{items}]"
    if len(types) < 2:
        return "".join(map(str, types))
    names = [desc.name for desc in node.proto.output_desc] + [""] * len(types)
    return ", ".join(
        f"{printable(name, _LONGEST_NAME) or index}: {t}"
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


def _source_text(source: Source) -> str:
    text = printable(str(source), 200)
    return f"  # {text}" if text else ""


def summary_lines(dump: Dump, costs: Costs, size_option: str = "sizes") -> Iterator[str]:
    """Operators by type, the quantised share, bytes, operations and memory; ``size_option`` is how sizes are given."""
    kinds = Counter(node.type for node in dump.order)
    yield f"{len(dump.order)} nodes of {len(kinds)} types: " + ", ".join(
        f"{times} {printable(kind, _LONGEST_NAME)}"
        for kind, times in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    )
    touching, computing = costs.quantised()
    share = f" ({100 * touching / computing:.0f} %)" if computing else ""
    yield f"quantised: {touching} of {computing} computing nodes{share}"
    yield f"moved: {quantity(costs.total('bytes'), 'B')}; computed: {quantity(costs.total('flops'), 'FLOP')}"
    held = f"inputs {quantity(costs.held(INPUT_TYPES), 'B')}, constants {quantity(costs.held(CONST_TYPES), 'B')}"
    yield f"memory: {held}, intermediate results at their peak {quantity(costs.peak, 'B')}"
    if costs.missing:
        asked = ",".join(f"{name}=…" for name in costs.missing)
        names = ", ".join(map(printable, costs.missing))
        yield f"symbols without a size: {names}; give {size_option} {printable(asked)} for numbers"
    inference = dump.inference
    for name, (size, node) in inference.baked.items():
        only = f"{printable(node)} works with no other size"
        yield f"{printable(name)} is declared dynamic but can only be {size}: {only}"
    for name, text in inference.tied.items():
        yield f"{printable(name)} can only be {printable(text)}"
    if inference.disagreements:
        yield f"descs that disagree with what the kernels say: {len(inference.disagreements)} nodes"
    if inference.failures:
        yield f"types that could not be inferred: {len(inference.failures)} nodes (marked ?)"


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
