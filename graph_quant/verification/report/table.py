"""The report on a terminal, readable in 100 columns."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..compare.metrics import Deviation
from . import words
from .report import FAILING, GraphReport, NodeReport, OutputReport, Report, Status

LONGEST = 60  # of a longer graph, only unequal results are shown
_WIDTH = 100
_HEADS = ("", "FX node", "GE nodes", "result", "differ", "max", "mean", "dB", "line")
_GE, _NUMBERS = 2, range(4, 8)
_LONGEST_NAME, _LONGEST_RESULT, _LONGEST_LINE = 31, 14, 16
MARKS = {
    Status.EQUAL: ("✓", "green"),
    Status.CLOSE: ("≈", "yellow"),
    Status.DIFFERS: ("✗", "bold red"),
    Status.INHERITED: ("↳", "red"),
    Status.RANDOM: ("?", "blue"),
    Status.UNKNOWN: ("?", "blue"),
}


class _Console(Console):
    """Raises on a broken pipe: rich would exit with code 1, which here means that results differ."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show(
    report: Report, *, all_nodes: bool = False, console: Console | None = None, for_all: str = "all_nodes=True"
) -> None:
    """Print the report; ``for_all`` is the hint for printing all nodes of a long graph."""
    console = console or _Console()
    if not console.is_terminal:
        console.width = _WIDTH
    for graph in report.graphs:
        _show_graph(console, graph, all_nodes, for_all)
    _show_outputs(console, report)
    first = report.first_divergence
    if first is not None:
        _show_first(console, first)
    console.print(Text(report.verdict(), style="bold green" if report.ok else "bold red"), soft_wrap=True)


def _show_graph(console: Console, graph: GraphReport, all_nodes: bool, for_all: str) -> None:
    rows = graph.nodes if all_nodes or len(graph.nodes) <= LONGEST else _select_unequal(graph)
    title = f"{graph.name}" + (f", call {graph.call}" if graph.call > 1 else "")
    cells = [_cells(node) for node in rows]
    widths = [max(len(head), *(len(row[column]) for row in cells), 0) for column, head in enumerate(_HEADS)]
    # The list of GE nodes is shortened to fit; the page and the JSON have all of it.
    widths[_GE] = min(widths[_GE], max(console.width - sum(widths) + widths[_GE] - len(widths), len(_HEADS[_GE])))
    table = Table(box=None, show_edge=False, padding=(0, 1, 0, 0))
    for column, (head, width) in enumerate(zip(_HEADS, widths, strict=True)):
        justify: Any = "right" if column in _NUMBERS else "left"
        table.add_column(head, justify=justify, width=width, overflow="ellipsis", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    console.print(Text(title, style="bold"))
    if rows:
        console.print(table)
    _show_counts(console, graph, len(rows), for_all)


def _select_unequal(graph: GraphReport) -> list[NodeReport]:
    return [node for node in graph.nodes if node.status is not Status.EQUAL][:LONGEST]


def _cells(node: NodeReport) -> list[Text]:
    mark, style = MARKS[node.status]
    quiet = "dim" if node.status is Status.EQUAL else ""
    compared = node.status not in (Status.RANDOM, Status.UNKNOWN)
    return [
        Text(mark, style),
        Text(_shortened(node.fx, _LONGEST_NAME), style if node.status in FAILING else ""),
        Text(node.ge_types, "dim"),
        Text(_shortened(words.result_type(node.dtype, node.shape), _LONGEST_RESULT), "dim"),
        *(Text(cell, quiet) for cell in (_measures(node.difference) if compared else (node.status.value, "", "", ""))),
        Text(_tail(str(node.line), _LONGEST_LINE) if node.line else "", "dim"),
    ]


def _measures(difference: Deviation) -> tuple[str, str, str, str]:
    if difference.equal:
        return "equal", "0", "0", "∞"
    if difference.mismatch and difference.first is None:
        return ("shape" if difference.mismatch.startswith("shape") else "dtype"), "-", "-", "-"
    return (
        words.share(difference.differing / max(difference.total, 1)),
        words.number(difference.max_error, 2),
        words.number(difference.mean_error, 2),
        words.decibel(difference.sqnr),
    )


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _tail(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[-(width - 1) :]


def _show_counts(console: Console, graph: GraphReport, shown: int, for_all: str) -> None:
    counts = [f"{graph.count(status)} {status.value}" for status in Status if graph.count(status)]
    hidden = len(graph.nodes) - shown
    counts += [f"{hidden} not shown ({for_all} shows them)"] if hidden else []
    counts += [f"{len(graph.unobserved)} without a GE node"] if graph.unobserved else []
    nothing = "captured: it has no GE nodes, its outputs are below" if graph.is_captured else "nothing to compare"
    console.print(Text(" · ".join(counts) or nothing, "dim"), soft_wrap=True)
    console.print()


def _show_outputs(console: Console, report: Report) -> None:
    for graph in report.graphs:
        wrong = [output for output in graph.outputs if output.status not in (Status.EQUAL, Status.RANDOM)]
        for output in wrong:
            console.print(_output_line(output, f"{graph.name} ", "its FX graph"), soft_wrap=True)
    for output in report.outputs:
        console.print(_output_line(output, "", "eager"), soft_wrap=True)
    for remark in (*report.decompositions, *report.passes):
        console.print(Text(str(remark), "yellow"), soft_wrap=True)
    if report.outputs:
        console.print()


def _output_line(output: OutputReport, prefix: str, reference: str) -> Text:
    mark, style = MARKS[output.status]
    line = Text.assemble(
        (mark, style), f" {prefix}{output.name} ", (words.result_type(output.dtype, output.shape), "dim")
    )
    if output.status is Status.UNKNOWN:
        text = output.note
    elif output.status is Status.RANDOM:
        text = "random numbers, not comparable"
    else:
        text = output.note or words.wrong(output.difference)
    line.append(f" against {reference}: {text}", "dim" if output.difference.equal else "")
    return line


def _show_first(console: Console, node: NodeReport) -> None:
    console.print(Text.assemble(("first divergence  ", "bold red"), (node.fx, "bold"), f"  {node.op}"), soft_wrap=True)
    nodes = ", ".join(f"{ge_node.type} {ge_node.name!r}" for ge_node in node.ge if ge_node.type != "Const")
    facts = {
        "GE": nodes,
        "in": node.module,
        "line": f"{node.line.file}:{node.line.number}" if node.line else "",
        "code": node.line.code if node.line else "",
        "found": words.wrong(node.difference),
        "or": f"before it, without a GE node of their own: {', '.join(node.through)}" if node.through else "",
    }
    for name, fact in facts.items():
        if fact:
            console.print(Text.assemble((f"  {name:6}", "dim"), fact), soft_wrap=True)
    console.print()
