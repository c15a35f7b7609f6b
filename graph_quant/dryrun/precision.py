"""Finds floating point computation in quantised graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..dumps import Dump
from ..ge import CONST_TYPES, CONTRACTION, INPUT_TYPES, OUTPUT_TYPE, QUANTISED, Node
from ..host.kernels import facts
from .findings import DryRunFinding

_OUTSIDE = CONST_TYPES | INPUT_TYPES | {OUTPUT_TYPE}
_SHOWN_TYPES = 6


def float_contractions(dump: Dump) -> list[DryRunFinding]:
    """Matrix products without quantised inputs, by Python line."""
    lines: Counter[DryRunFinding] = Counter()
    for node in dump.order:
        if facts(node.type).flops == CONTRACTION and not _is_quantised(dump, node):
            types = ", ".join(str(read) for read in dump.inference.input_types(node)[:2])
            lines[DryRunFinding(f"{node.type}({types})", _line(node))] += 1
    return _merge_counts(lines)


def float_islands(dump: Dump) -> list[DryRunFinding]:
    """Connected floating point parts of the graph between quantised nodes."""
    floating = {node.name for node in dump.order if _is_floating(dump, node)}
    islands: Counter[DryRunFinding] = Counter()
    for island in _connected_parts(dump, floating):
        before = {edge.node for name in island for edge in dump.nodes[name].inputs} - island
        after = {node.name for name in island for node, _ in dump.consumers[name]} - island
        first = [dump.nodes[name] for name in before if _is_quantised_step(dump, name)]
        last = [dump.nodes[name] for name in after if _is_quantised_step(dump, name)]
        if first and last:
            islands[_describe_island(dump, island, first, last)] += 1
    return _merge_counts(islands)


def _merge_counts(counts: Counter[DryRunFinding]) -> list[DryRunFinding]:
    return [
        DryRunFinding(f"{times} × {finding.what}" if times > 1 else finding.what, finding.where)
        for finding, times in counts.items()
    ]


def _describe_island(dump: Dump, island: set[str], first: list[Node], last: list[Node]) -> DryRunFinding:
    computing = Counter(dump.nodes[name].type for name in island if _computes(dump.nodes[name]))
    shown = ", ".join(
        f"{times} {kind}" if times > 1 else kind for kind, times in sorted(computing.items())[:_SHOWN_TYPES]
    )
    more = f" and {len(computing) - _SHOWN_TYPES} types more" if len(computing) > _SHOWN_TYPES else ""
    ends = " → ".join("/".join(sorted({node.type for node in nodes})) for nodes in (first, last))
    earliest = min((dump.nodes[name] for name in island), key=lambda node: dump.position[node.name])
    return DryRunFinding(f"{ends}: {shown or 'no arithmetic'}{more}", _line(earliest))


def _connected_parts(dump: Dump, names: set[str]) -> Iterator[set[str]]:
    left = set(names)
    while left:
        island: set[str] = set()
        waiting = [left.pop()]
        while waiting:
            name = waiting.pop()
            island.add(name)
            near = {edge.node for edge in dump.nodes[name].inputs} | {node.name for node, _ in dump.consumers[name]}
            waiting.extend(near & left)
            left -= near
        yield island


def _is_floating(dump: Dump, node: Node) -> bool:
    if node.type in _OUTSIDE or node.name in dump.inference.values or _is_quantised(dump, node):
        return False
    return any("float" in (tensor.dtype or "") for tensor in dump.inference.types[node.name])


def _computes(node: Node) -> bool:
    about = facts(node.type)
    return bool(about.flops) and not about.view


def _is_quantised_step(dump: Dump, name: str) -> bool:
    return name in dump.nodes and dump.nodes[name].type not in _OUTSIDE and _is_quantised(dump, dump.nodes[name])


def _is_quantised(dump: Dump, node: Node) -> bool:
    tensors = (*dump.inference.input_types(node), *dump.inference.types[node.name])
    return any(tensor.dtype in QUANTISED for tensor in tensors)


def _line(node: Node) -> str:
    source = node.source
    return f"{source.file}:{source.line}: {source.code}" if source.file else ""
