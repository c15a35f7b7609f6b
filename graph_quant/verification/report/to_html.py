"""The report as one page: no network, no file beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

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
    title = escape(f"{report.title}: {'equal' if report.ok else 'different'}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head>\n<body><main>"
        + "\n".join(_sections(report))
        + "</main></body></html>\n"
    )


def _sections(report: Report) -> Iterator[str]:
    mood = "good" if report.ok else "bad"
    yield f'<header class="{mood}"><p>{escape(report.title)}</p><h1>{escape(report.verdict())}</h1></header>'
    yield f'<ul class="tiles">{"".join(_tiles(report))}</ul>'
    first = report.first_divergence
    if first is not None:
        yield _first(first)
    if report.outputs:
        notes = "".join(f"<p>{escape(str(each))}</p>" for each in report.decompositions)
        yield f"<section><h2>Outputs, against eager execution</h2>{_outputs(report.outputs)}{notes}</section>"
    for graph in report.graphs:
        wrong = [each for each in graph.outputs if each.status not in (Status.EQUAL, Status.RANDOM)]
        if wrong:
            yield f"<section><h2>Outputs of {escape(graph.name)}, against its FX graph</h2>{_outputs(wrong)}</section>"
    for graph in report.graphs:
        yield from _graph(graph)


def _tiles(report: Report) -> Iterator[str]:
    yield _tile("compared", report.extent())
    for status in Status:
        count = sum(node.status is status for node in report.nodes)
        if count:
            yield _tile(_MEANINGS[status], str(count), status.value)
    yield _tile("asked for", str(report.thresholds))
    yield _tile("ran on", report.device)


def _tile(name: str, value: str, kind: str = "") -> str:
    return f'<li class="{kind}"><b>{escape(value)}</b><span>{escape(name)}</span></li>'


def _first(node: NodeReport) -> str:
    facts = {
        "GE nodes": ", ".join(f"{each.type} '{each.name}'" for each in node.ge if each.type != "Const"),
        "line": f"{node.line.file}:{node.line.number}" if node.line else "",
        "found": words.wrong(node.difference),
        "errors": words.measures(node.difference),
        "or before it": ", ".join(node.through) + " (without a GE node of their own)" if node.through else "",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in facts.items() if fact)
    code = f"<pre>{escape(node.line.code)}</pre>" if node.line and node.line.code else ""
    return (
        '<section class="first"><h2>First divergence</h2>'
        f"<h3>{escape(node.fx)} <small>{escape(node.op)}</small></h3>{code}<dl>{rows}</dl></section>"
    )


def _outputs(outputs: Sequence[OutputReport]) -> str:
    rows = []
    for each in outputs:
        cells = (
            MARKS[each.status][0],
            each.name,
            words.result_type(each.dtype, each.shape),
            each.note or ("random" if each.status is Status.RANDOM else words.wrong(each.difference)),
        )
        rows.append(f'<tr class="{each.status.value}">{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>')
    return f"<table>{''.join(rows)}</table>"


def _graph(graph: GraphReport) -> Iterator[str]:
    name = escape(graph.name) + (f", call {graph.call}" if graph.call > 1 else "")
    yield f"<h2 class='graph'>{name}</h2>"
    if any(node.status is not Status.EQUAL for node in graph.nodes):
        yield f"<section><h3>Largest error along the graph</h3>{plots.errors_along(graph.nodes)}</section>"
        yield f"<section><h3>SQNR along the graph</h3>{plots.sqnr_along(graph.nodes)}</section>"
    else:
        yield "<section>Every result has equal bits: there is no error to draw along the graph.</section>"
    quantised = [node for node in graph.nodes if node.distribution]
    if quantised:
        shown = sorted(quantised, key=lambda node: node.status not in FAILING)[:MOST_HISTOGRAMS]
        yield _histograms(shown, len(quantised))
        key = 'share on a bound of the destination; <i class="bar"></i> graph, <i class="reference"></i> reference'
        yield f"<section><h3>Saturated values <small>{key}</small></h3>{plots.saturation_bars(shown)}</section>"
    yield _nodes(graph)


def _histograms(nodes: Sequence[NodeReport], count: int) -> str:
    cards = "".join(
        f'<figure class="{node.status.value}"><figcaption><b>{escape(node.fx)}</b> '
        f"{escape(words.result_type(node.dtype, node.shape))}</figcaption>{plots.histogram(node.distribution)}</figure>"
        for node in nodes
        if node.distribution
    )
    most = f" {len(nodes)} of {count}, wrong ones first;" if count > len(nodes) else ""
    key = f'{most} <i class="bar"></i> graph, <i class="outline"></i> reference'
    return f'<section><h3>Quantised values <small>{key}</small></h3><div class="cards">{cards}</div></section>'


def _nodes(graph: GraphReport) -> str:
    head = "".join(f"<th>{name}</th>" for name in _HEADS)
    statuses = [status for status in Status if graph.count(status)]
    legend = " · ".join(f'<span class="{each.value}">{MARKS[each][0]}</span> {_MEANINGS[each]}' for each in statuses)
    note = f"<p>without a GE node of their own: {escape(', '.join(graph.unobserved))}</p>"
    return (
        f"<section><h3>Results, in the order they are computed <small>{legend}</small></h3>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(map(_row, graph.nodes))}</tbody></table></div>"
        f"{note if graph.unobserved else ''}</section>"
    )


def _row(node: NodeReport) -> str:
    difference = node.difference
    compared = node.status not in (Status.RANDOM, Status.UNKNOWN)
    differ = "equal" if difference.equal else f"{difference.differing} of {difference.total}"
    numbers = [difference.mismatch or differ, words.number(difference.max_error), words.number(difference.mean_error)]
    numbers = [*numbers, words.decibel(difference.sqnr)] if compared else [node.note or node.status.value, "", "", ""]
    types = [node.ge_types, words.result_type(node.dtype, node.shape)]
    line = f'<td title="{escape(node.line.code)}">{escape(str(node.line))}</td>' if node.line else "<td></td>"
    return (
        f'<tr class="{node.status.value}"><td>{MARKS[node.status][0]}</td>'
        f'<td title="{escape(node.op)}">{escape(node.fx)}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in types)
        + "".join(f'<td class="number">{escape(cell)}</td>' for cell in numbers)
        + f"{line}</tr>"
    )
