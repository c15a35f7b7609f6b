"""The report as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from ..compare.metrics import Deviation
from .report import GraphReport, NodeReport, OutputReport, Report

VERSION = 1


def to_json(report: Report) -> str:
    """A JSON document. Numbers that JSON lacks are the strings "inf" and "-inf"."""
    document = {
        "version": VERSION,
        "title": report.title,
        "device": report.device,
        "ok": report.ok,
        "verdict": report.verdict(),
        "stopped": str(report.stopped) if report.stopped is not None else None,
        "thresholds": {"max_error": report.thresholds.max_error, "min_sqnr": report.thresholds.min_sqnr},
        "first_divergence": _node(report.first_divergence) if report.first_divergence else None,
        "outputs": [_output(output) for output in report.outputs],
        "calls_beyond": report.calls_beyond,
        "calls_unknown": report.calls_unknown,
        "decompositions": [
            {"graph": entry.graph, "call": entry.call, "line": entry.line._asdict() if entry.line else None}
            for entry in report.decompositions
        ],
        "passes": [entry.name for entry in report.passes],
        "graphs": [_graph(graph) for graph in report.graphs],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _graph(graph: GraphReport) -> dict[str, Any]:
    return {
        "name": graph.name,
        "call": graph.call,
        "ok": graph.ok,
        "unobserved": list(graph.unobserved),
        "outputs": [_output(output) for output in graph.outputs],
        "nodes": [_node(node) for node in graph.nodes],
    }


def _node(node: NodeReport) -> dict[str, Any]:
    return {
        "fx": node.fx,
        "op": node.op,
        "ge": [{"name": ge_node.name, "type": ge_node.type} for ge_node in node.ge],
        "line": node.line._asdict() if node.line else None,
        **({"module": node.module} if node.module else {}),
        "status": node.status.value,
        "dtype": node.dtype,
        "shape": list(node.shape),
        **_difference(node.difference),
        "through": list(node.through),
        "quantised": _distribution(node),
        "note": node.note,
    }


def _distribution(node: NodeReport) -> dict[str, Any] | None:
    distribution = node.distribution
    if distribution is None:
        return None
    reference, graph = distribution.saturation
    return {
        "destination": distribution.destination.name,
        "low": distribution.destination.low,
        "high": distribution.destination.high,
        "saturation": {"reference": reference, "graph": graph},
        "histogram": {"reference": list(distribution.reference), "graph": list(distribution.graph)},
    }


def _output(output: OutputReport) -> dict[str, Any]:
    return {
        "name": output.name,
        "status": output.status.value,
        "dtype": output.dtype,
        "shape": list(output.shape),
        **_difference(output.difference),
        "note": output.note,
    }


def _difference(difference: Deviation) -> dict[str, Any]:
    first = difference.first
    return {
        "equal": difference.equal,
        "differing": difference.differing,
        "total": difference.total,
        "max_error": _finite(difference.max_error),
        "mean_error": _finite(difference.mean_error),
        "sqnr_db": _finite(difference.sqnr),
        "mismatch": difference.mismatch,
        "first_difference": first
        and {"index": list(first.index), "reference": _finite(first.reference), "graph": _finite(first.graph)},
    }


def _finite(value: float | int | str) -> float | int | str:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
