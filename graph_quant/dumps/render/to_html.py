"""A graph, or the difference of two, as one page that needs no network."""

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
from ..graph.node_text import node_line
from ..graph.subgraph_wiring import parameters
from .page_groups import Groups
from .page_nodes import LONGEST, NodeFacts
from .page_script import script
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
    """The page of one graph; ``more`` are lines for its summary."""
    summary = [*summary_lines(dump, costs, size_option), *more]
    return _page({"title": title, "summary": summary, "sides": [_side(dump, costs, title, timing)]})


def diff_page(difference: Difference, before: str = "before", after: str = "after") -> str:
    """The page of a difference: both graphs side by side, under the names of their files, and every change."""
    old, new = difference.old, difference.new
    places = _Places(difference)
    counts = [line for line in difference.lines() if not line.startswith(("- ", "+ ", "~ ", " ", "in graph "))]
    counts = [*(line for each in difference.all() for line in each.own_lines()), *counts]
    return _page(
        {
            "title": f"{before} → {after}",
            "summary": counts,
            "sides": [_side(old, Costs(old), before), _side(new, Costs(new), after)],
            "changes": [change for each in difference.all() for change in _changes(each, places)],
            "pairs": [places(each, *pair) for each in difference.all() for pair in each.pairs.items()],
        }
    )


class _Places:
    """The numbers of nodes on either side of a difference."""

    def __init__(self, difference: Difference) -> None:
        self._old, self._new = _starts(difference.old), _starts(difference.new)

    def __call__(self, each: Difference, old: str | None, new: str | None) -> list[int | None]:
        return [
            None if old is None else self._old[id(each.old)] + each.old.position[old],
            None if new is None else self._new[id(each.new)] + each.new.position[new],
        ]


def _changes(each: Difference, places: _Places) -> Iterator[dict[str, Any]]:
    """What changed in one graph, with the numbers of the nodes on either side."""
    for node in each.removed:
        text = printable(node_line(each.old, node), _LONGEST_LINE)
        yield {"kind": "removed", "text": text, "nodes": places(each, node.name, None)}
    for node in each.added:
        text = printable(node_line(each.new, node), _LONGEST_LINE)
        yield {"kind": "added", "text": text, "nodes": places(each, None, node.name)}
    for (old, new), changes in each.changed.items():
        name = printable(old, LONGEST) if old == new else f"{printable(old, LONGEST)}, now {printable(new, LONGEST)}"
        yield {
            "kind": "changed",
            "text": f"{name}: {printable(each.new.nodes[new].type, LONGEST)}",
            "details": [f"{one.kind} {printable(one.what)}: {one.before} → {one.after}" for one in changes],
            "nodes": places(each, old, new),
        }


def _page(facts: dict[str, Any]) -> str:
    files = resources.files(__package__)
    # In a script element only "<" could end the text early.
    whole = facts | {"quantised": sorted(QUANTISED)}
    data = json.dumps(whole, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    style = (files / "page.css").read_text(encoding="utf-8")
    return render(__package__, "page.html", style=Markup(style), data=Markup(data), script=Markup(script()))


def _starts(dump: Dump) -> dict[int, int]:
    """The number of the first node of each graph."""
    starts, count = {}, 0
    for graph in dump.graphs():
        starts[id(graph)] = count
        count += len(graph.order)
    return starts


def _side(dump: Dump, costs: Costs, name: str, timing: Timing | None = None) -> dict[str, Any]:
    """The nodes of a graph and of all that it calls, and the groups they stand in."""
    starts, groups = _starts(dump), Groups(dump)
    nodes: list[dict[str, Any]] = []
    for graph in dump.graphs():
        known = NodeFacts(graph, costs.of(graph) or Costs(graph), starts[id(graph)], timing)
        for node in graph.order:
            facts = known.of(node)
            facts["group"] = groups.of(graph, node)
            if groups.is_inline(graph, node):
                facts["inline"] = True
            if graph is not dump:
                facts["graph"] = printable(graph.name, LONGEST)
            nodes.append(facts)
    for graph in dump.graphs():
        for caller, calls in graph.calls.items():
            place = starts[id(graph)] + graph.position[caller]
            for call in calls:
                _feed(nodes, place, starts[id(call.graph)], graph.nodes[caller], call.graph)
    return {"name": name, "nodes": nodes, "groups": groups.list}


def _feed(nodes: list[dict[str, Any]], caller: int, start: int, node: Node, graph: Dump) -> None:
    """Draw a called graph from the node that calls it: its inputs come from there."""
    fed = parameters(graph, node)
    for inner in graph.order:
        own = nodes[start + graph.position[inner.name]]
        if inner.type in OUTSIDE_TYPES and "inputs" not in own:
            name = node.inputs[fed[inner.name]].name if inner.name in fed else ""
            entry = {"name": printable(name, LONGEST), "from": caller, "type": "called", "control": True}
            own["inputs"] = [entry]
