"""A dry run in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ..dumps import SOURCE, Costs, bound, quantity
from ..dumps import chip as chip_of
from ..ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE
from .findings import DryGraph, DryRun, Spot

_MOST_SHOWN = 12
_NOT_COUNTED = CONST_TYPES | INPUT_TYPES | {OUTPUT_TYPE}


def lines(run: DryRun, chip: str | None = None) -> Iterator[str]:
    """The page, a line at a time."""
    yield f"{run.title}: {_number(len(run.graphs), 'graph')}, lowered and not run"
    yield from _several("breaks the graph", run.breaks)
    yield from _several("is refused, and the script goes on without it", _survived(run))
    if run.stopped:
        yield f"  stops: {run.stopped}"
    for graph in run.graphs:
        yield ""
        yield from _graph_lines(graph, chip)
    yield ""
    yield _verdict(run)


def _graph_lines(graph: DryGraph, chip: str | None) -> Iterator[str]:
    operators = _number(graph.operators.total(), "operator")
    is_one = graph.operators.total() == 1
    if graph.dump is None:
        yield f"{graph.name}: {operators}, captured as {'it is' if is_one else 'they are'}: {_counted(graph.operators)}"
    else:
        kinds = Counter(node.type for node in graph.dump.order if node.type not in _NOT_COUNTED)
        inside = f"{kinds.total()} of them inside: {_counted(kinds)}" if kinds else "none of them inside"
        nodes = _number(len(graph.dump.order), "GE node")
        yield f"{graph.name}: {operators} {'becomes' if is_one else 'become'} {nodes}, {inside}"
    yield from _several("has no converter, or it refuses", graph.unlowered)
    yield from _several("has no kernel on the host; an NPU has its own", graph.no_kernel)
    yield from _several("multiplies in floating point", graph.floats)
    yield from _several("stays unquantised between two quantised operators", graph.islands)
    if graph.dump is not None:
        yield from _cost_lines(graph, chip)


def _cost_lines(graph: DryGraph, chip: str | None) -> Iterator[str]:
    assert graph.dump is not None
    costs = _costs(graph)
    touching, computing = costs.quantised()
    yield f"  quantised: {touching} of {computing} computing nodes"
    moved, computed = (quantity(costs.total(what), unit) for what, unit in (("bytes", "B"), ("flops", "FLOP")))
    sizes = ", ".join(f"{name}={size}" for name, size in graph.sizes.items() if name in graph.dump.inference.symbols)
    when = f" at {sizes}" if sizes else ""
    yield f"  cost{when}: {moved} moved, {computed} computed, {quantity(costs.peak, 'B')} at the peak"
    if chip is not None:
        total, by = _least_time(graph, costs, chip)
        shares = ", ".join(f"{100 * time / total:.0f} % {what}" for what, time in sorted(by.items())) if total else ""
        told = f"  at least {total:.3g} µs on {chip}, by peaks {SOURCE}"
        if unknown := _of_unknown_size(graph, costs):
            told += f", without {_number(unknown, 'node')} whose sizes are not known"
        yield f"{told} ({shares})" if shares else told


def _least_time(graph: DryGraph, costs: Costs, chip: str) -> tuple[float, dict[str, float]]:
    """Microseconds by the roofline of each node, and what bounds them."""
    assert graph.dump is not None
    by: dict[str, float] = defaultdict(float)
    for node in graph.dump.order:
        limit = bound(graph.dump, node, costs, chip_of(chip))
        if limit is not None:
            by[limit.by] += limit.microseconds
    return sum(by.values()), by


def _of_unknown_size(graph: DryGraph, costs: Costs) -> int:
    assert graph.dump is not None
    found = [costs.nodes[node.name] for node in graph.dump.order]
    return sum(not (isinstance(each.bytes, int) and isinstance(each.flops, int)) for each in found)


def _costs(graph: DryGraph) -> Costs:
    assert graph.dump is not None
    known = {name: size for name, size in graph.sizes.items() if name in graph.dump.inference.symbols}
    return Costs(graph.dump, known)


def _several(title: str, spots: Sequence[Spot]) -> Iterator[str]:
    if spots:
        yield f"  {title}:"
        yield from (f"    {spot}" for spot in spots[:_MOST_SHOWN])
    if len(spots) > _MOST_SHOWN:
        yield f"    and {len(spots) - _MOST_SHOWN} more"


def _counted(kinds: Counter[str]) -> str:
    shown = kinds.most_common(_MOST_SHOWN)
    more = f", {len(kinds) - len(shown)} kinds more" if len(kinds) > len(shown) else ""
    return ", ".join(f"{times} {kind}" if times > 1 else kind for kind, times in shown) + more


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _survived(run: DryRun) -> list[Spot]:
    """The refusals but the one that the script stops at."""
    return [spot for spot in run.refused if not run.stopped.startswith(spot.what)]


def _verdict(run: DryRun) -> str:
    if run.is_empty:
        return "nothing was compiled for the NPU, and no `model` and `inputs` are defined"
    if run.ok:
        lacking = sum(bool(graph.no_kernel) for graph in run.graphs)
        return "everything lowers" + (f"; {lacking} of the graphs need an NPU to run" if lacking else "")
    unlowered = sum(len(graph.unlowered) for graph in run.graphs)
    found = [
        _number(len(run.breaks), "graph break") if run.breaks else "",
        f"operators that do not lower: {unlowered}" if unlowered else "",
        f"{_number(len(refused), 'call')} refused" if (refused := _survived(run)) else "",
        "it stops before its end" if run.stopped else "",
    ]
    return "not one whole graph: " + ", ".join(filter(None, found))


def as_json(run: DryRun, chip: str | None = None) -> dict[str, Any]:
    """The same for programs."""
    return {
        "title": run.title,
        "ok": run.ok,
        "stopped": run.stopped,
        "breaks": [vars(spot) for spot in run.breaks],
        "refused": [vars(spot) for spot in run.refused],
        "graphs": [_graph_as_json(graph, chip) for graph in run.graphs],
    }


def _graph_as_json(graph: DryGraph, chip: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": graph.name, "operators": dict(graph.operators), "sizes": graph.sizes}
    for name in ("unlowered", "no_kernel", "floats", "islands"):
        found[name] = [vars(spot) for spot in getattr(graph, name)]
    if graph.dump is not None:
        costs = _costs(graph)
        totals = {what: costs.total(what) for what in ("bytes", "flops")}
        found["nodes"] = dict(Counter(node.type for node in graph.dump.order))
        found |= {what: value if isinstance(value, int) else None for what, value in totals.items()}
        if chip is not None:
            found["microseconds"] = _least_time(graph, costs, chip)[0]
            found["nodes_of_unknown_size"] = _of_unknown_size(graph, costs)
    return found
