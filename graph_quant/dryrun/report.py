"""Formats a dry run as text and JSON."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..dumps import PEAK_SOURCE, Costs, format_quantity, roofline_bound
from ..dumps import find_chip as chip_of
from ..ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE
from .findings import DryGraph, DryRun, DryRunFinding

if TYPE_CHECKING:
    from ..fusions.apply import FusionFinding, FusionReport

_MOST_SHOWN = 12
_NOT_COUNTED = CONST_TYPES | INPUT_TYPES | {OUTPUT_TYPE}


def report_lines(run: DryRun, chip: str | None = None) -> Iterator[str]:
    """The report as lines of text."""
    yield f"{run.title}: {_pluralise(len(run.graphs), 'graph')}, lowered but not executed"
    yield from _finding_lines("graph breaks", run.breaks)
    yield from _finding_lines("refused, but the script continued", _caught_refusals(run))
    if run.stopped:
        yield f"  stops: {run.stopped}"
    for graph in run.graphs:
        yield ""
        yield from _graph_lines(graph, chip)
    yield ""
    yield _verdict(run)


def _graph_lines(graph: DryGraph, chip: str | None) -> Iterator[str]:
    operators = _pluralise(graph.operators.total(), "operator")
    is_one = graph.operators.total() == 1
    if graph.dump is None:
        yield f"{graph.name}: {operators}, captured without lowering: {_format_counts(graph.operators)}"
    else:
        kinds = Counter(node.type for node in graph.dump.order if node.type not in _NOT_COUNTED)
        inside = f"{kinds.total()} of them operations: {_format_counts(kinds)}" if kinds else "none of them operations"
        nodes = _pluralise(len(graph.dump.order), "GE node")
        yield f"{graph.name}: {operators} {'becomes' if is_one else 'become'} {nodes}, {inside}"
    yield from _finding_lines("not lowered: no converter, or it refuses", graph.unlowered)
    yield from _finding_lines("no kernel on the host (an NPU has its own)", graph.no_kernel)
    yield from _finding_lines("matrix products in floating point", graph.floats)
    yield from _finding_lines("not quantised, between two quantised operators", graph.islands)
    if graph.fusions is not None:
        yield from _fusion_lines(graph.fusions)
    if graph.dump is not None:
        yield from _cost_lines(graph, chip)


def _fusion_lines(report: FusionReport) -> Iterator[str]:
    counts = _format_counts(Counter(finding.fusion for finding in report.fused)) or "none"
    yield f"  fused: {counts}; {report.calls_before} calls became {report.calls_after}"
    for (before, after), layers in itertools.groupby(report.layers, key=report.layers.__getitem__):
        names = list(layers)
        last = f" to {names[-1].rpartition('.')[2]}" if len(names) > 1 else ""
        yield f"    {names[0]}{last}: {before} calls became {after}"
    yield from _finding_lines("not fused", report.not_fused)


def _cost_lines(graph: DryGraph, chip: str | None) -> Iterator[str]:
    assert graph.dump is not None
    costs = _costs(graph)
    touching, computing = costs.quantised()
    yield f"  quantised: {touching} of {computing} computing nodes"
    moved, computed = (format_quantity(costs.total(what), unit) for what, unit in (("bytes", "B"), ("flops", "FLOP")))
    sizes = ", ".join(f"{name}={size}" for name, size in graph.sizes.items() if name in graph.dump.inference.symbols)
    when = f" at {sizes}" if sizes else ""
    yield f"  cost{when}: {moved} moved, {computed} computed, {format_quantity(costs.peak, 'B')} at the peak"
    if chip is not None:
        total, by = _least_time(graph, costs, chip)
        shares = ", ".join(f"{100 * time / total:.0f} % {what}" for what, time in sorted(by.items())) if total else ""
        text = f"  at least {total:.3g} µs on {chip}, by peaks {PEAK_SOURCE}"
        if unknown := _count_unknown_sizes(graph, costs):
            text += f", without {_pluralise(unknown, 'node')} whose sizes are not known"
        yield f"{text} ({shares})" if shares else text


def _least_time(graph: DryGraph, costs: Costs, chip: str) -> tuple[float, dict[str, float]]:
    """The sum of the roofline bounds of all nodes in microseconds, and by limiting resource."""
    assert graph.dump is not None
    by: dict[str, float] = defaultdict(float)
    for node in graph.dump.order:
        limit = roofline_bound(graph.dump, node, costs, chip_of(chip))
        if limit is not None:
            by[limit.by] += limit.microseconds
    return sum(by.values()), by


def _count_unknown_sizes(graph: DryGraph, costs: Costs) -> int:
    assert graph.dump is not None
    node_costs = [costs.nodes[node.name] for node in graph.dump.order]
    return sum(not (isinstance(cost.bytes, int) and isinstance(cost.flops, int)) for cost in node_costs)


def _costs(graph: DryGraph) -> Costs:
    assert graph.dump is not None
    known = {name: size for name, size in graph.sizes.items() if name in graph.dump.inference.symbols}
    return Costs(graph.dump, known)


def _finding_lines(title: str, findings: Sequence[DryRunFinding | FusionFinding]) -> Iterator[str]:
    if findings:
        yield f"  {title}:"
        yield from (f"    {finding}" for finding in findings[:_MOST_SHOWN])
    if len(findings) > _MOST_SHOWN:
        yield f"    and {len(findings) - _MOST_SHOWN} more"


def _format_counts(kinds: Counter[str]) -> str:
    shown = kinds.most_common(_MOST_SHOWN)
    more = f", {len(kinds) - len(shown)} more kinds" if len(kinds) > len(shown) else ""
    return ", ".join(f"{times} {kind}" if times > 1 else kind for kind, times in shown) + more


def _pluralise(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _caught_refusals(run: DryRun) -> list[DryRunFinding]:
    """The refusals except the one that stopped the script."""
    return [finding for finding in run.refused if not run.stopped.startswith(finding.what)]


def _verdict(run: DryRun) -> str:
    if run.is_empty:
        return "nothing was compiled for the NPU, and no `model` and `inputs` are defined"
    if run.ok:
        lacking = sum(bool(graph.no_kernel) for graph in run.graphs)
        return "everything lowers" + (f"; {lacking} of the graphs need an NPU to run" if lacking else "")
    unlowered = sum(len(graph.unlowered) for graph in run.graphs)
    reasons = [
        _pluralise(len(run.breaks), "graph break") if run.breaks else "",
        f"operators that do not lower: {unlowered}" if unlowered else "",
        f"{_pluralise(len(refused), 'call')} refused" if (refused := _caught_refusals(run)) else "",
        "stopped before its end" if run.stopped else "",
    ]
    return "does not lower as a whole: " + ", ".join(filter(None, reasons))


def report_as_json(run: DryRun, chip: str | None = None) -> dict[str, Any]:
    """The report as a dictionary for JSON."""
    return {
        "title": run.title,
        "ok": run.ok,
        "stopped": run.stopped,
        "breaks": [vars(finding) for finding in run.breaks],
        "refused": [vars(finding) for finding in run.refused],
        "graphs": [_graph_as_json(graph, chip) for graph in run.graphs],
    }


def _graph_as_json(graph: DryGraph, chip: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"name": graph.name, "operators": dict(graph.operators), "sizes": graph.sizes}
    for name in ("unlowered", "no_kernel", "floats", "islands"):
        result[name] = [vars(finding) for finding in getattr(graph, name)]
    if graph.fusions is not None:
        result["fused"] = [vars(finding) for finding in graph.fusions.fused]
        result["calls_by_layer"] = graph.fusions.layers
        result["not_fused"] = [vars(finding) for finding in graph.fusions.not_fused]
    if graph.dump is not None:
        costs = _costs(graph)
        totals = {what: costs.total(what) for what in ("bytes", "flops")}
        result["nodes"] = dict(Counter(node.type for node in graph.dump.order))
        result |= {what: value if isinstance(value, int) else None for what, value in totals.items()}
        if chip is not None:
            result["microseconds"] = _least_time(graph, costs, chip)[0]
            result["nodes_of_unknown_size"] = _count_unknown_sizes(graph, costs)
    return result
