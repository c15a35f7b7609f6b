"""Formats a graph as text: one line per node, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, Node, printable
from ..analyse.cost import Costs
from ..graph.node_text import LONGEST_NAME, format_edge, format_node, format_quantity, format_source
from ..graph.patterns import Pattern
from ..graph.shapes import format_dim

if TYPE_CHECKING:
    from ..dump import Dump

Note = Callable[["Dump", Node], str]


def node_lines(dump: Dump, costs: Costs | None = None, *, fold: bool = True, note: Note | None = None) -> Iterator[str]:
    r"""Format a dump as text.

    Args:
        dump: The dump.
        costs: Costs to append to each line.
        fold: Whether a pattern, such as packing int4, is one line.
        note: A function of dump and node whose result is appended to each line.

    Returns:
        One line per node, producers first, then the called graphs.

    Examples:
        >>> print("\n".join(node_lines(dump, Costs(dump))))
    """
    callers: dict[int, str] = {}
    for graph in dump.graphs():
        for name, calls in graph.calls.items():
            callers.update((id(call.graph), f", {call.role} of {printable(name, LONGEST_NAME)}") for call in calls)
        if graph is not dump:
            yield ""
            yield f"graph {printable(graph.name, LONGEST_NAME)}{callers.get(id(graph), ', which no node calls')}:"
        yield from _graph_lines(graph, graph_costs(graph, costs) if costs else None, fold, note)


def graph_costs(graph: Dump, costs: Costs) -> Costs:
    """The costs of a called graph."""
    own = costs.of(graph)
    return own if own is not None else Costs(graph)


def _graph_lines(dump: Dump, costs: Costs | None, fold: bool, note: Note | None) -> Iterator[str]:
    folded = {name: pattern for pattern in dump.patterns for name in pattern.members} if fold else {}
    sizes = inlined_shapes(dump) if fold else {}
    for node in dump.order:
        pattern = folded.get(node.name)
        if node.name in sizes or (pattern is not None and pattern.head in sizes):
            continue
        if pattern is None:
            yield format_node(dump, node, costs, note(dump, node) if note else "", sizes)
        elif node.name == pattern.head:
            yield _pattern_line(dump, pattern, sizes)
    hidden = sum(name in sizes or (name in folded and folded[name].head in sizes) for name in dump.nodes)
    if hidden:
        yield f"({hidden} nodes that compute shapes are shown at the inputs that read them; --no-fold lists them)"


def inlined_shapes(dump: Dump) -> dict[str, str]:
    """Map nodes that compute shapes for other nodes to the shape as text."""
    heads = {pattern.head for pattern in dump.patterns if pattern.kind == "size"}
    inside = {name for pattern in dump.patterns for name in pattern.members}
    shapes: dict[str, str] = {}
    for name, items in dump.inference.values.items():
        node = dump.nodes[name]
        if node.type in CONST_TYPES | OUTSIDE_TYPES or (name in inside and name not in heads):
            continue
        readers = dump.consumers[name]
        if readers and all(reader.type not in END_TYPES for reader, _ in readers):
            text = ", ".join(map(format_dim, items))
            shapes[name] = text if dump.inference.types[name][0].shape == () else f"[{text}]"
    return shapes


def _pattern_line(dump: Dump, pattern: Pattern, sizes: Mapping[str, str]) -> str:
    head = dump.nodes[pattern.head]
    members = set(pattern.members)
    outside: dict[str, None] = {}
    for name in pattern.members:
        for edge in dump.nodes[name].inputs:
            if edge.node and edge.node not in members:
                outside[sizes.get(edge.node) or format_edge(dump, edge.node, edge.output)] = None
    kinds = Counter(dump.nodes[name].type for name in pattern.members)
    folded = ", ".join(f"{times} {kind}" if times > 1 else kind for kind, times in kinds.items())
    result = dump.inference.types[head.name][0]
    line = f"{printable(head.name, LONGEST_NAME)}: {pattern.label}({', '.join(outside)}) -> {result}"
    return f"{line}  = {len(pattern.members)} nodes: {folded}{format_source(head.source)}"


def summary_lines(dump: Dump, costs: Costs, size_option: str = "sizes") -> Iterator[str]:
    r"""Summarise a dump.

    Args:
        dump: The dump.
        costs: Its costs.
        size_option: How the text names the option for sizes of symbols.

    Returns:
        Lines with nodes by type, the quantised share, bytes, operations, memory and what is missing.

    Examples:
        >>> print("\n".join(summary_lines(dump, Costs(dump))))
    """
    graphs = list(dump.graphs())
    kinds = Counter(node.type for graph in graphs for node in graph.order)
    among = f" in {len(graphs)} graphs" if len(graphs) > 1 else ""
    yield f"{kinds.total()} nodes{among} of {len(kinds)} types: " + ", ".join(
        f"{times} {printable(kind, LONGEST_NAME)}"
        for kind, times in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    )
    touching, computing = costs.quantised()
    share = f" ({100 * touching / computing:.0f} %)" if computing else ""
    yield f"quantised: {touching} of {computing} computing nodes{share}"
    moved, computed = format_quantity(costs.total("bytes"), "B"), format_quantity(costs.total("flops"), "FLOP")
    yield f"moved: {moved}; computed: {computed}"
    sizes = (costs.held(OUTSIDE_TYPES), costs.held(CONST_TYPES), costs.peak)
    inputs, constants, peak = (format_quantity(size, "B") for size in sizes)
    yield f"memory: inputs {inputs}, constants {constants}, intermediate results at their peak {peak}"
    calling = {graph.nodes[name].type for graph in graphs for name in graph.calls}
    if branching := sorted(kind for kind in calling if "Call" not in kind):
        yield f"counted of {', '.join(branching)}: the most expensive branch, one iteration of a loop"
    if dump.missing:
        yield f"not in the file: {printable('; '.join(dump.missing))}"
    if costs.missing:
        example = ",".join(f"{name}=…" for name in costs.missing)
        names = ", ".join(map(printable, costs.missing))
        yield f"symbols without a size: {names}; give {size_option} {printable(example)} for numbers"
    inference = dump.inference
    for name, (size, node) in inference.specialised.items():
        only = f"{printable(node)} works with no other size"
        yield f"{printable(name)} is declared dynamic but can only be {size}: {only}"
    for name, text in inference.tied.items():
        yield f"{printable(name)} can only be {printable(text)}"
    if inference.disagreements:
        yield f"descs that disagree with inferred types: {len(inference.disagreements)} nodes"
    if inference.failures:
        yield f"types that could not be inferred: {len(inference.failures)} nodes (marked ?)"
