"""Renders a graph, or the difference of two, as a self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ...ge import OUTSIDE_TYPES, QUANTISED, Node, printable
from ...pages import render
from ..analyse.cost import Costs
from ..analyse.diff import Difference
from ..graph.node_text import format_node
from ..graph.subgraph_wiring import map_inputs
from .page_groups import Groups
from .page_nodes import LONGEST, PageNodes
from .page_script import join_script
from .timing import Timing
from .to_text import summary_lines

if TYPE_CHECKING:
    from ..dump import Dump

_LONGEST_LINE = 400


def to_html(
    dump: Dump,
    costs: Costs,
    title: str = "GE graph",
    size_option: str = "sizes",
    timing: Timing | None = None,
    more: tuple[str, ...] = (),
) -> str:
    """Render a dump as an interactive HTML page.

    Args:
        dump: The dump.
        costs: Its costs.
        title: The title of the page.
        size_option: How the summary names the option for sizes of symbols.
        timing: Times of nodes to show.
        more: Additional lines of the summary.

    Returns:
        A self-contained page.

    Examples:
        >>> Path("graph.html").write_text(to_html(dump, Costs(dump)))
    """
    summary = [*summary_lines(dump, costs, size_option), *more]
    return _render_page({"title": title, "summary": summary, "sides": [_side_facts(dump, costs, title, timing)]})


def diff_page(difference: Difference, before: str = "before", after: str = "after", title: str | None = None) -> str:
    """Render a difference as an HTML page with both graphs side by side.

    Args:
        difference: The result of `Dump.diff`.
        before: The title of the old graph.
        after: The title of the new graph.
        title: The title of the page; both titles without it.

    Returns:
        A self-contained page.

    Examples:
        >>> Path("diff.html").write_text(diff_page(old.diff(new)))
    """
    old, new = difference.old, difference.new
    numbers = _NodeNumbers(difference)
    counts = [line for line in difference.lines() if not line.startswith(("- ", "+ ", "~ ", " ", "in graph "))]
    counts = [*(line for part in difference.walk() for line in part.graph_change_lines()), *counts]
    return _render_page(
        {
            "title": title or f"{before} → {after}",
            "summary": counts,
            "sides": [_side_facts(old, Costs(old), before), _side_facts(new, Costs(new), after)],
            "changes": [change for part in difference.walk() for change in _list_changes(part, numbers)],
            "pairs": [numbers(part, *pair) for part in difference.walk() for pair in part.pairs.items()],
        }
    )


class _NodeNumbers:
    """The numbers of nodes on both sides of a difference."""

    def __init__(self, difference: Difference) -> None:
        self._old, self._new = _first_numbers(difference.old), _first_numbers(difference.new)

    def __call__(self, part: Difference, old: str | None, new: str | None) -> list[int | None]:
        return [
            None if old is None else self._old[id(part.old)] + part.old.position[old],
            None if new is None else self._new[id(part.new)] + part.new.position[new],
        ]


def _list_changes(part: Difference, numbers: _NodeNumbers) -> Iterator[dict[str, Any]]:
    """The changes of one graph with the numbers of the nodes on both sides."""
    for node in part.removed:
        text = printable(format_node(part.old, node), _LONGEST_LINE)
        yield {"kind": "removed", "text": text, "nodes": numbers(part, node.name, None)}
    for node in part.added:
        text = printable(format_node(part.new, node), _LONGEST_LINE)
        yield {"kind": "added", "text": text, "nodes": numbers(part, None, node.name)}
    for (old, new), changes in part.changed.items():
        name = printable(old, LONGEST) if old == new else f"{printable(old, LONGEST)}, now {printable(new, LONGEST)}"
        yield {
            "kind": "changed",
            "text": f"{name}: {printable(part.new.nodes[new].type, LONGEST)}",
            "details": [f"{one.kind} {printable(one.what)}: {one.before} → {one.after}" for one in changes],
            "nodes": numbers(part, old, new),
        }


def _render_page(facts: dict[str, Any]) -> str:
    files = resources.files(__package__)
    # In a script element only "<" could end the text.
    whole = facts | {"quantised": sorted(QUANTISED)}
    data = json.dumps(whole, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    style = (files / "page.css").read_text(encoding="utf-8")
    return render(__package__, "page.html", style=Markup(style), data=Markup(data), script=Markup(join_script()))


def _first_numbers(dump: Dump) -> dict[int, int]:
    """The number of the first node of each graph."""
    starts, count = {}, 0
    for graph in dump.graphs():
        starts[id(graph)] = count
        count += len(graph.order)
    return starts


def _side_facts(dump: Dump, costs: Costs, name: str, timing: Timing | None = None) -> dict[str, Any]:
    """The nodes of a graph and of all graphs it calls, and their groups."""
    starts, groups = _first_numbers(dump), Groups(dump)
    nodes: list[dict[str, Any]] = []
    for graph in dump.graphs():
        known = PageNodes(graph, costs.of(graph) or Costs(graph), starts[id(graph)], timing)
        for node in graph.order:
            facts = known.describe(node)
            facts["group"] = groups.of(graph, node)
            if groups.is_inline(graph, node):
                facts["inline"] = True
            if graph is not dump:
                facts["graph"] = printable(graph.name, LONGEST)
            nodes.append(facts)
    for graph in dump.graphs():
        for caller, calls in graph.calls.items():
            number = starts[id(graph)] + graph.position[caller]
            for call in calls:
                _connect_subgraph(nodes, number, starts[id(call.graph)], graph.nodes[caller], call.graph)
    return {"name": name, "nodes": nodes, "groups": groups.list}


def _connect_subgraph(nodes: list[dict[str, Any]], caller: int, start: int, node: Node, graph: Dump) -> None:
    """Connect the inputs of a called graph to its caller."""
    fed = map_inputs(graph, node)
    for inner in graph.order:
        own = nodes[start + graph.position[inner.name]]
        if inner.type in OUTSIDE_TYPES and "inputs" not in own:
            name = node.inputs[fed[inner.name]].name if inner.name in fed else ""
            entry = {"name": printable(name, LONGEST), "from": caller, "type": "called", "control": True}
            own["inputs"] = [entry]
