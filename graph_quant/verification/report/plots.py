"""The plots of the page, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from ..compare.quantised import Distribution
from . import words
from .report import NodeReport, Status

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 960, 190, 62, 26, 12
_HIGHEST_SQNR = 200.0  # larger values are drawn at this height
_BARS = 64  # at most, so that they stay visible


def errors_along(nodes: Sequence[NodeReport]) -> Markup:
    """The largest error of each result in graph order, on a logarithmic scale; equal results are on the bottom line."""
    values = [_error(node) for node in nodes]
    decades = [math.log10(value) for value in values if 0 < value < math.inf]
    low = math.floor(min(decades, default=-1))
    high = max(math.ceil(max(decades, default=0)), low + 1)

    def height(value: float) -> float:
        if value == 0:
            return _HEIGHT - _BOTTOM
        part = 1.0 if value == math.inf else (math.log10(value) - low) / (high - low)
        return _HEIGHT - _BOTTOM - 22 - part * (_HEIGHT - _BOTTOM - _TOP - 22)

    step = max(1, (high - low) // 5 + ((high - low) % 5 > 0))
    ticks = [(height(10.0**power), f"1e{power}") for power in range(low, high + 1, step)] if decades else []
    return _along(nodes, [height(value) for value in values], [*ticks, (height(0), "equal")], "largest error")


def magnitudes_along(nodes: Sequence[NodeReport]) -> Markup:
    """The largest absolute value of each result in graph order, on a logarithmic scale; for graphs without an error."""
    values = [node.difference.magnitude for node in nodes]
    decades = [math.log10(value) for value in values if value > 0]
    low = math.floor(min(decades, default=-1))
    high = max(math.ceil(max(decades, default=0)), low + 1)

    def height(value: float) -> float:
        part = max(0.0, (math.log10(value) - low) / (high - low)) if value > 0 else 0.0
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _BOTTOM - _TOP)

    step = max(1, (high - low) // 5 + ((high - low) % 5 > 0))
    ticks = [(height(10.0**power), f"1e{power}") for power in range(low, high + 1, step)]
    return _along(nodes, [height(value) for value in values], ticks, "largest value")


def sqnr_along(nodes: Sequence[NodeReport]) -> Markup:
    """The SQNR of each result in the order of the graph; equal results lie on the top line."""
    values = [math.inf if node.status in (Status.RANDOM, Status.UNKNOWN) else node.difference.sqnr for node in nodes]
    finite = [min(value, _HIGHEST_SQNR) for value in values if math.isfinite(value)]
    low, high = (min(0.0, *finite, 0.0), max(*finite, 10.0)) if finite else (0.0, 100.0)

    def height(value: float) -> float:
        if value == math.inf:
            return _TOP
        part = 0.0 if value == -math.inf else (min(value, high) - low) / (high - low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _BOTTOM - _TOP - 22)

    ticks = [(height(level), f"{level:.0f} dB") for level in (low, (low + high) / 2, high)] if finite else []
    return _along(nodes, [height(value) for value in values], [*ticks, (height(math.inf), "equal")], "SQNR")


def _error(node: NodeReport) -> float:
    return 0.0 if node.status in (Status.RANDOM, Status.UNKNOWN) else node.difference.max_error


def _along(
    nodes: Sequence[NodeReport], heights: Sequence[float], ticks: Sequence[tuple[float, str]], name: str
) -> Markup:
    gap = (_WIDTH - _LEFT - 16) / max(len(nodes), 1)
    radius = min(5.0, max(2.0, gap / 2.5))
    parts = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        for y, text in ticks
    ]
    for index, (node, y) in enumerate(zip(nodes, heights, strict=True)):
        x = _LEFT + 8 + gap * (index + 0.5)
        text = f"{node.fx} ({node.op}): {_measured(node)}"
        size = radius + 1.5 if node.status is Status.DIFFERS else radius
        parts.append(
            f'<circle class="{node.status.value}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}">'
            f"<title>{escape(text)}</title></circle>"
        )
    parts.append(
        f'<text class="tick" x="{_LEFT + 8}" y="{_HEIGHT - 4}">first result</text>'
        f'<text class="tick" x="{_WIDTH}" y="{_HEIGHT - 4}" text-anchor="end">last of {len(nodes)}</text>'
    )
    return _svg(_HEIGHT, f"{name} along the graph", parts)


def _measured(node: NodeReport) -> str:
    if node.status in (Status.RANDOM, Status.UNKNOWN):
        return node.note or node.status.value
    difference = node.difference
    if difference.equal:
        return f"equal bits; values up to {words.number(difference.magnitude)}"
    return f"{words.wrong(difference)}; {words.measures(difference)}"


def histogram(distribution: Distribution) -> Markup:
    """The count of each value: the graph as bars, the reference as an outline. A bar may count several values."""
    per_bar = max(1, len(distribution.reference) // _BARS)
    graph, reference = _joined(distribution.graph, per_bar), _joined(distribution.reference, per_bar)
    top = max(*graph, *reference, 1)
    width, height = 288, 96
    step = width / len(graph)
    bars, outline = [], [f"M0 {height}"]
    for index, (seen, expected) in enumerate(zip(graph, reference, strict=True)):
        low = distribution.destination.low + index * per_bar
        name = f"{low}" if per_bar == 1 else f"{low}…{low + per_bar - 1}"
        tall, level = height * seen / top, height - height * expected / top
        edge = " edge" if index in (0, len(graph) - 1) else ""
        bars.append(
            f'<rect class="bar{edge}" x="{index * step:.2f}" width="{step * 0.9:.2f}" y="{height - tall:.2f}" '
            f'height="{tall:.2f}"><title>{name}: graph {seen}, reference {expected}</title></rect>'
        )
        outline.append(f"V{level:.2f}H{(index + 1) * step:.2f}")
    labels = (
        f'<text class="tick" x="0" y="{height + 14}">{distribution.destination.low}</text>'
        f'<text class="tick" x="{width}" y="{height + 14}" text-anchor="end">{distribution.destination.high}</text>'
    )
    path = f'<path class="outline" d="{"".join(outline)}V{height}"/>'
    return Markup(f'<svg viewBox="0 -2 {width} {height + 20}" role="img">{"".join(bars)}{path}{labels}</svg>')


def _joined(counts: Sequence[int], per_bar: int) -> list[int]:
    return [sum(counts[start : start + per_bar]) for start in range(0, len(counts), per_bar)]


def saturation_bars(nodes: Sequence[NodeReport]) -> Markup:
    """The share of values on a bound, for each quantised result: reference above, graph below."""
    rows = [(node, *node.distribution.saturation) for node in nodes if node.distribution]
    top = max([0.01, *(max(reference, graph) for _, reference, graph in rows)])
    left, room, tall = 230, 560, 30
    parts = []
    for index, (node, reference, graph) in enumerate(rows):
        y = index * tall + 4
        name = node.fx if len(node.fx) <= 32 else node.fx[:31] + "…"
        parts.append(
            f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="reference" x="{left}" y="{y + 2}" width="{room * reference / top + 1:.1f}" height="8"/>'
            f'<rect class="bar" x="{left}" y="{y + 12}" width="{room * graph / top + 1:.1f}" height="8"/>'
            f'<text class="tick" x="{left + room * max(reference, graph) / top + 8:.1f}" y="{y + 15}">'
            f"{words.share(graph)}{'' if reference == graph else f' (reference {words.share(reference)})'}</text>"
        )
    return _svg(len(rows) * tall + 8, "saturated values", parts)


def _svg(height: int, label: str, parts: Sequence[str]) -> Markup:
    return Markup(f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>')
