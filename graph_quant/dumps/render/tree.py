"""Formats the outline of a graph: modules or layers with their nodes and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge import printable
from ..analyse.cost import Costs
from ..graph.node_text import LONGEST_NAME, format_quantity
from ..graph.outline import Item, count_quantised

if TYPE_CHECKING:
    from ..dump import Dump

_TYPES = 6


def tree_lines(dump: Dump, costs: Costs) -> Iterator[str]:
    r"""Format the outline of a dump: modules, or layers that repeat, once each.

    Args:
        dump: The dump.
        costs: Its costs.

    Returns:
        Indented lines for every graph, callers first.

    Examples:
        >>> print("\n".join(tree_lines(dump, Costs(dump))))
    """
    for graph in dump.graphs():
        yield from _lines(graph, graph.outline, costs.of(graph) or Costs(graph), 0)


def _lines(dump: Dump, item: Item, costs: Costs, depth: int) -> Iterator[str]:
    names = list(item.names())
    touching = count_quantised(dump, names)
    times = f" ×{item.times}" if item.times > 1 else ""
    size = f", block of {len(list(item.first.names()))} nodes" if item.times > 1 and item.kind == "module" else ""
    marks = f", {touching} quantised" if touching else ""
    flops = [costs.nodes[name].flops for name in names]
    known = [flop for flop in flops if isinstance(flop, int)]
    spent = format_quantity(sum(known), "FLOP") if len(known) == len(flops) else "? FLOP"
    count = f"{len(names)} node{'s' * (len(names) != 1)}"
    yield f"{'  ' * depth}{printable(item.label, LONGEST_NAME)}{times}{size}: {count}{marks}, {spent}"
    yield from (f"{'  ' * depth}  differs: {printable(text, 300)}" for text in item.differs)
    inside = item.first
    for child in inside.children:
        yield from _lines(dump, child, costs, depth + 1)
    if item.kind != "graph" and inside.nodes and not inside.children:
        kinds = Counter(dump.nodes[name].type for name in inside.nodes)
        shown = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in kinds.most_common(_TYPES))
        more = f", {len(kinds) - _TYPES} more types" if len(kinds) > _TYPES else ""
        yield f"{'  ' * (depth + 1)}{printable(shown, 300)}{more}"
