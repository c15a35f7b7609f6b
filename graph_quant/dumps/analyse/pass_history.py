"""The history of a graph from the dumps of successive passes: what each pass changed, and what became of nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, QUANTISED, Node, printable
from ..graph.placement import read_placement

if TYPE_CHECKING:
    from ..dump import Dump
    from .diff import Difference

# ge_proto_00000012_graph_1_PassName.txt, 003_aot_forward_graph_after_pass.txt, dynamo_optimized_graph_1_rank_0_….txt
_GE = re.compile(r"ge_(?:proto|onnx|readable)_(?P<number>\d+)_(?:graph_(?P<graph>\d+)_)?(?P<name>.*?)(?:\.\w+)?$")
_FX = re.compile(r"(?P<number>\d{3})_aot_(?P<graph>\w+?)_(?P<name>(?:graph|original|optimized).*?)(?:\.\w+)?$")
_TORCHAIR = re.compile(r"dynamo_(?P<name>original|optimized)_graph_(?P<graph>\d+_rank_\d+_pid_\d+)_")
_FORMATS = ("ge_proto", "ge_onnx", "ge_readable")
_MOST = 6


@dataclass(frozen=True)
class Pass:
    """One dump of a series: its number, the pass that it was written after, and the file."""

    number: int
    name: str
    path: Path


def group_pass_dumps(paths: Sequence[Path]) -> dict[str, list[Pass]]:
    """Group the dumps of a folder into series, by their file names.

    Args:
        paths: The dumps, as `list_dumps` returns them.

    Returns:
        For each series (of GE, TorchAir, or a phase of AOTAutograd) its dumps in pass order. Of a graph in several
        formats, the most detailed is taken.

    Examples:
        >>> for name, passes in group_pass_dumps(list_dumps(Path("dumps"))).items():
        ...     print(name, [entry.name for entry in passes])
    """
    groups: dict[str, dict[int, Pass]] = defaultdict(dict)
    for path in paths:
        if match := _GE.match(path.name):
            key, number = f"GE in {path.parent.name}", int(match["number"])
            best = groups[key].get(number)
            if best is None or _format_rank(path) < _format_rank(best.path):
                groups[key][number] = Pass(number, match["name"], path)
        elif match := _FX.match(path.name):
            key = f"{match['graph']} graph in {path.parent.parent.name or path.parent.name}"
            groups[key][int(match["number"])] = Pass(int(match["number"]), match["name"], path)
        elif match := _TORCHAIR.match(path.name):
            number = int(match["name"] == "optimized")
            groups[f"graph {match['graph']}"].setdefault(number, Pass(number, match["name"], path))
        else:
            groups[path.name][0] = Pass(0, path.stem, path)
    return {key: [passes[number] for number in sorted(passes)] for key, passes in sorted(groups.items())}


def _format_rank(path: Path) -> int:
    return next((rank for rank, name in enumerate(_FORMATS) if path.name.startswith(name)), len(_FORMATS))


@dataclass
class PassChange:
    """What one pass changed. ``fused`` maps a new node to those that were fused into it."""

    before: Pass
    after: Pass
    fused: dict[str, list[str]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    casts: list[str] = field(default_factory=list)
    reformatted: list[str] = field(default_factory=list)
    retyped: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unquantised: list[str] = field(default_factory=list)
    lowered: dict[str, list[str]] = field(default_factory=dict)  # FX nodes to their GE nodes

    def phrases(self) -> list[str]:
        """The changes as short phrases."""
        phrases = []
        if self.lowered:
            count = sum(map(len, self.lowered.values()))
            phrases.append(f"lowered from FX to GE: {len(self.lowered)} nodes to {count}")
        if self.fused:
            shown = [f"{new} = {' + '.join(sorted(old)[:4])}" for new, old in list(self.fused.items())[:_MOST]]
            phrases.append(f"fused {_shorten_list(self.fused, shown)}")
        for word, names in (
            ("removed", self.removed), ("added", self.added), ("cast inserted:", self.casts),
            ("reformatted", self.reformatted), ("dtype changed of", self.retyped), ("otherwise changed", self.changed),
        ):  # fmt: skip
            if names:
                phrases.append(f"{word} {_shorten_list(names, names[:_MOST])}")
        return phrases


def _shorten_list(all_: Sequence[str] | dict[str, list[str]], shown: Sequence[str]) -> str:
    more = f", … {len(all_)} in all" if len(all_) > len(shown) else ""
    return printable(", ".join(shown), 400) + more


def compare_passes(before: Dump, after: Dump, passes: tuple[Pass, Pass]) -> PassChange:
    """Compare a dump with the next of its series."""
    difference = before.diff(after)
    result = PassChange(*passes)
    gone = {node.name for node in difference.removed}
    for node in after.order:
        made_of = [name for name in read_placement(after, node).origins if name in gone and name != node.name]
        if made_of:
            result.fused[node.name] = [*([node.name] if node.name in before.nodes else []), *made_of]
    for node in difference.added:
        if node.name in result.fused:
            continue
        if node.type in ("Cast", "TransData"):
            result.casts.append(node.name)
        elif node.type not in CONST_TYPES | OUTSIDE_TYPES:
            result.added.append(f"{node.name} ({node.type})")
    for (_, new), changes in difference.changed.items():
        kinds = {change.kind for change in changes}
        for kind, names in (("format", result.reformatted), ("dtype", result.retyped)):
            if kind in kinds:
                names.append(new)
        if kinds <= {"attribute", "shape"} and new not in result.fused:
            result.changed.append(new)
    swallowed = {name for names in result.fused.values() for name in names}
    result.removed = [
        f"{node.name} ({node.type})"
        for node in difference.removed
        if node.name not in swallowed and node.type not in CONST_TYPES | OUTSIDE_TYPES
    ]
    result.unquantised = list(_find_unquantised(before, after, result, difference.renamed))
    if difference and not result.phrases():
        result.changed = list(_list_all_changes(difference))
    return result


def _list_all_changes(difference: Difference) -> Iterator[str]:
    """List every difference, for a pass without a more specific change: rewired inputs, called graphs."""
    for graph in difference.walk():
        within = "" if graph is difference else f" in {graph.new.name}"
        yield from (f"{new}{within}" for _, new in graph.changed)
        yield from (f"{node.name}{within}" for node in (*graph.removed, *graph.added))
        yield from (f"{change.what}{within}" for change in graph.graph_changes)


def _find_unquantised(before: Dump, after: Dump, result: PassChange, renamed: dict[str, str]) -> Iterator[str]:
    """Operators on quantised tensors whose successor after the pass is not quantised."""
    became = {old: new for new, olds in result.fused.items() for old in olds} | renamed
    for node in before.order:
        if not computes_quantised(before, node):
            continue
        successor = became.get(node.name, node.name)
        if successor in after.nodes and not computes_quantised(after, after.nodes[successor]):
            yield f"{node.name} ({node.type}), now {after.nodes[successor].type}"


def computes_quantised(dump: Dump, node: Node) -> bool:
    """Whether a node computes on quantised tensors."""
    if node.type in CONST_TYPES | OUTSIDE_TYPES | END_TYPES:
        return False
    reads = dump.inference.input_types(node)
    return sum(tensor.dtype in QUANTISED for tensor in reads) > 0 and node.type not in ("TransData", "Cast", "Reshape")


def trace_nodes(dumps: Sequence[tuple[Pass, Dump]], steps: Sequence[PassChange]) -> dict[str, list[str]]:
    """For every operator of the first dump, list its changes of type, fusions and removal with their passes."""
    into = [{old: new for new, olds in step.fused.items() for old in olds if old != new} for step in steps]
    paths: dict[str, list[str]] = {}
    for node in dumps[0][1].order:
        if node.type not in CONST_TYPES | OUTSIDE_TYPES | END_TYPES:
            made_by = [node.source.fx] if node.source.fx not in ("", node.name) else []
            path = [*made_by, f"{node.name} ({node.type})", *_trace_node(node.name, dumps, steps, into)]
            if len(path) > 1 + len(made_by):
                paths[node.name] = path
    # Removed nodes last.
    return dict(sorted(paths.items(), key=lambda item: item[1][-1].startswith(("removed", "no GE node"))))


def _trace_node(
    name: str, dumps: Sequence[tuple[Pass, Dump]], steps: Sequence[PassChange], into: Sequence[dict[str, str]]
) -> Iterator[str]:
    for step, fused, (_, before), (_, after) in zip(steps, into, dumps, dumps[1:], strict=False):
        if step.lowered:
            lowered = [node for node in step.lowered.get(name, ()) if after.nodes[node].type not in CONST_TYPES]
            if not lowered:
                yield f"no GE node at {step.after.name}"
                return
            name = lowered[0]
            yield f"{' + '.join(after.nodes[node].type for node in lowered)} at {step.after.name}"
        elif name in fused:
            name = fused[name]
            yield f"fused into {name} ({after.nodes[name].type}) at {step.after.name}"
        elif name not in after.nodes:
            yield f"removed at {step.after.name}"
            return
        elif name in before.nodes and after.nodes[name].type != before.nodes[name].type:
            yield f"{after.nodes[name].type} at {step.after.name}"


@dataclass
class History:
    """A series of dumps and the changes between them; made by `trace_passes`.

    Attributes:
        name: The name of the series.
        passes: The dumps in pass order.
        steps: The changes from each dump to the next.
        sizes: The number of nodes of each dump.
        paths: For each operator of the first dump, what became of it.

    Examples:
        >>> history = trace_passes("GE", dumps)
        >>> history.first_unquantised
    """

    name: str
    passes: list[Pass]
    steps: list[PassChange]
    sizes: list[int]
    paths: dict[str, list[str]]

    @property
    def first_unquantised(self) -> PassChange | None:
        """The first pass after which a quantised operator is no longer quantised."""
        return next((step for step in self.steps if step.unquantised), None)

    def lines(self) -> Iterator[str]:
        """The history as lines of text."""
        yield f"{printable(self.name, 200)}: {len(self.passes)} dumps"
        yield f"  {self.passes[0].number:>4} {printable(self.passes[0].name, 120)}: {self.sizes[0]} nodes"
        for step, size in zip(self.steps, self.sizes[1:], strict=True):
            words = step.phrases()
            suffix = "" if words else ", nothing changed"
            yield f"  {step.after.number:>4} {printable(step.after.name, 120)}: {size} nodes{suffix}"
            yield from (f"         {word}" for word in words)
        if self.paths:
            yield "  where nodes went:"
            for path in list(self.paths.values())[: 4 * _MOST]:
                yield f"    {printable(' → '.join(path), 400)}"
            if len(self.paths) > 4 * _MOST:
                yield f"    … {len(self.paths)} in all"
        lost = self.first_unquantised
        if lost is not None:
            names = "; ".join(lost.unquantised[:_MOST])
            yield f"  no longer quantised after {printable(lost.after.name, 120)}: {printable(names, 400)}"

    def facts(self) -> dict[str, object]:
        """The history as a dictionary for JSON."""
        lost = self.first_unquantised
        return {
            "name": self.name,
            "passes": [{"number": entry.number, "name": entry.name, "file": str(entry.path)} for entry in self.passes],
            "steps": [
                {key: value for key, value in vars(entry).items() if key not in ("before", "after")}
                | {"pass": entry.after.name}
                for entry in self.steps
            ],
            "paths": self.paths,
            "first_unquantised": None if lost is None else {"pass": lost.after.name, "nodes": lost.unquantised},
        }


def trace_passes(name: str, dumps: Sequence[tuple[Pass, Dump]]) -> History:
    r"""Compare each dump of a series with the next.

    Args:
        name: The name of the series.
        dumps: The dumps in pass order, each with its entry from `group_pass_dumps`.

    Returns:
        The history. From FX to GE graphs only the mapping of nodes is recorded.

    Examples:
        >>> for name, passes in group_pass_dumps(paths).items():
        ...     print("\n".join(trace_passes(name, [(entry, load(entry.path)) for entry in passes]).lines()))
    """
    steps = []
    for (earlier, before), (later, after) in pairwise(dumps):
        if (before.kind == "fx") == (after.kind == "fx"):
            steps.append(compare_passes(before, after, (earlier, later)))
        else:
            steps.append(PassChange(earlier, later, lowered=_map_lowered(after)))
    sizes = [sum(len(graph.nodes) for graph in dump.graphs()) for _, dump in dumps]
    paths = trace_nodes(dumps, steps)
    return History(name, [entry for entry, _ in dumps], steps, sizes, paths)


def _map_lowered(graph: Dump) -> dict[str, list[str]]:
    """The GE nodes of each FX node, from the sources in the dump."""
    lowered: dict[str, list[str]] = defaultdict(list)
    for node in graph.order:
        if node.source.fx and node.type not in OUTSIDE_TYPES | END_TYPES:
            lowered[node.source.fx].append(node.name)
    return dict(lowered)
