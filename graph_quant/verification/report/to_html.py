"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from ...pages import render
from . import plots, words
from .report import FAILING, GraphReport, NodeReport, OutputReport, Report, Status
from .table import MARKS

_STYLE = Path(__file__).with_name("page.css")
MOST_HISTOGRAMS = 36
_HEADS = ("", "FX node", "GE nodes", "result", "differ", *("max error", "mean error", "SQNR dB"), "line")
_MEANINGS = {
    Status.EQUAL: "equal bits",
    Status.CLOSE: "within the thresholds",
    Status.DIFFERS: "wrong",
    Status.INHERITED: "right for the wrong inputs it got",
    Status.RANDOM: "random, not comparable",
    Status.UNKNOWN: "no reference",
}


def to_html(report: Report) -> str:
    """The page."""
    first = report.first_divergence
    return render(
        __package__,
        "page.html",
        report=report,
        style=Markup(_STYLE.read_text(encoding="utf-8")),
        tiles=list(_tiles(report)),
        first=first,
        first_facts=[(name, fact) for name, fact in _facts(first).items() if fact] if first else [],
        output_cells=_output_cells,
        wrong_outputs=_wrong_outputs,
        most_telling=_most_telling,
        numbers=_numbers,
        plots=plots,
        words=words,
        heads=_HEADS,
        marks=MARKS,
        meanings=_MEANINGS,
        statuses=list(Status),
        equal=Status.EQUAL,
    )


def _tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    yield "compared", report.extent(), ""
    for status in Status:
        count = sum(node.status is status for node in report.nodes)
        if count:
            yield _MEANINGS[status], str(count), status.value
    yield "asked for", str(report.thresholds), ""
    yield "ran on", report.device, ""


def _facts(node: NodeReport) -> dict[str, str]:
    return {
        "GE nodes": ", ".join(f"{ge_node.type} '{ge_node.name}'" for ge_node in node.ge if ge_node.type != "Const"),
        "line": f"{node.line.file}:{node.line.number}" if node.line else "",
        "found": words.wrong(node.difference),
        "errors": words.measures(node.difference),
        "or before it": ", ".join(node.through) + " (without a GE node of their own)" if node.through else "",
    }


def _wrong_outputs(graph: GraphReport) -> list[OutputReport]:
    return [output for output in graph.outputs if output.status not in (Status.EQUAL, Status.RANDOM)]


def _output_cells(output: OutputReport) -> tuple[str, ...]:
    return (
        MARKS[output.status][0],
        output.name,
        words.result_type(output.dtype, output.shape),
        output.note or ("random" if output.status is Status.RANDOM else words.wrong(output.difference)),
    )


def _most_telling(nodes: Sequence[NodeReport]) -> list[NodeReport]:
    return sorted(nodes, key=lambda node: node.status not in FAILING)[:MOST_HISTOGRAMS]


def _numbers(node: NodeReport) -> list[str]:
    difference = node.difference
    if node.status in (Status.RANDOM, Status.UNKNOWN):
        return [node.note or node.status.value, "", "", ""]
    differ = "equal" if difference.equal else f"{difference.differing} of {difference.total}"
    largest, mean = words.number(difference.max_error), words.number(difference.mean_error)
    return [difference.mismatch or differ, largest, mean, words.decibel(difference.sqnr)]
