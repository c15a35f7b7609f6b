"""Compares two graphs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, UNDEFINED, Node, format_attribute, printable
from ..graph.node_text import format_constant, format_node
from ..graph.shapes import TensorType
from ..graph.subgraph_wiring import map_inputs, map_outputs
from ..read.file_contents import GE_KINDS
from .format_coverage import can_express, compared_attributes, constant_data, is_same_attribute, printed_constant
from .match import NAMING, attribute_key, match_nodes

if TYPE_CHECKING:
    from ..dump import Dump

_LAYER = re.compile(r"\.\d+(?=\.|$)")
_UNSTATED_SIZE = re.compile(r"\.\d+$")
_KINDS_WITH_DESCS = {"txt", "pbtxt"}  # formats with the descs that converters wrote


@dataclass(frozen=True)
class Change:
    """One difference; ``kind`` is attribute, dtype, shape, format, desc, wiring or graph."""

    kind: str
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.kind} {printable(self.what, 120)}: {self.before} -> {self.after}"


@dataclass
class Difference:
    """The result of `Dump.diff`.

    Attributes:
        old, new: The two dumps.
        added, removed: Nodes of only one graph.
        changed: The changes of each pair of matched nodes.
        renamed: Matched nodes of different names; this alone is not a difference.
        pairs: All matched nodes.
        inner: The differences of the graphs that matched nodes call.
        graph_changes: Differences of the graph itself.
        one_sided: Facts that only one of the files contains, which are not compared.
        unknown: Facts that neither file contains.
    """

    old: Dump
    new: Dump
    added: list[Node] = field(default_factory=list)
    removed: list[Node] = field(default_factory=list)
    changed: dict[tuple[str, str], list[Change]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    pairs: dict[str, str] = field(default_factory=dict)
    inner: list[Difference] = field(default_factory=list)
    graph_changes: list[Change] = field(default_factory=list)
    one_sided: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        """Whether the graphs differ."""
        return bool(self.added or self.removed or self.changed or self.graph_changes or any(self.inner))

    def lines(self) -> Iterator[str]:
        """The difference as lines of text: counts by module, then ``-`` removed, ``+`` added, ``~`` changed."""
        yield from self.module_lines()
        yield from (f"- {format_node(self.old, node)}" for node in self.removed)
        yield from (f"+ {format_node(self.new, node)}" for node in self.added)
        for (before, after), changes in self.changed.items():
            name = (
                printable(before, 120) if before == after else f"{printable(before, 120)} (now {printable(after, 120)})"
            )
            yield f"~ {name}: {printable(self.old.nodes[before].type, 120)}"
            yield from (f"    {c}" for c in changes)
        yield from self.graph_change_lines()
        for difference in filter(None, self.inner):
            yield f"in graph {printable(difference.new.name, 120)}:"
            yield from (f"  {line}" for line in difference.lines())
        if self:
            counts = f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed"
            yield f"{counts}; {len(self.old.nodes)} nodes before, {len(self.new.nodes)} after"
        else:
            graphs = list(self.walk())
            nodes = sum(len(difference.old.nodes) for difference in graphs)
            renamed = sum(len(difference.renamed) for difference in graphs)
            other = f", {renamed} under another name" if renamed else ""
            yield f"no difference in {nodes} nodes{other}"
            for who, counts_by_fact in (
                ("only one of the two files states", sum((difference.one_sided for difference in graphs), Counter())),
                ("neither of the two files states", sum((difference.unknown for difference in graphs), Counter())),
            ):
                if counts_by_fact:
                    parts = ", ".join(f"{what} ({count} nodes)" for what, count in sorted(counts_by_fact.items()))
                    yield f"{who}: {parts}"

    def by_module(self) -> dict[str, Counter[str]]:
        """How many nodes of each module were removed, added and changed; layers of equal counts are one entry."""
        counts: dict[str, Counter[str]] = {}
        for what, dump, names in (
            ("removed", self.old, [node.name for node in self.removed]),
            ("added", self.new, [node.name for node in self.added]),
            ("changed", self.new, [after for _, after in self.changed]),
        ):
            for name in names:
                counts.setdefault(dump.nodes[name].source.module, Counter())[what] += 1
        return counts

    def module_lines(self) -> Iterator[str]:
        """A line for each module that differs, if there are several; alike layers are one line."""
        counts = self.by_module()
        if len(counts) < 2:
            return
        alike: dict[tuple[str, str], list[str]] = {}
        for module, count in counts.items():
            words = ", ".join(f"{count[what]} {what}" for what in ("removed", "added", "changed") if count[what])
            alike.setdefault((_LAYER.sub(".*", f".{module}")[1:], words), []).append(module)
        for (pattern, words), modules in alike.items():
            times = f" in each of {len(modules)}" if len(modules) > 1 else ""
            name = pattern if times else modules[0]
            yield f"module {printable(name, 120) or '(none)'}: {words}{times}"
        yield ""

    def graph_change_lines(self) -> Iterator[str]:
        """The changes of the graph itself as lines of text."""
        if self.graph_changes:
            yield f"~ the graph {printable(self.new.name, 120)}".rstrip()
            yield from (f"    {change}" for change in self.graph_changes)

    def walk(self) -> Iterator[Difference]:
        """Yield this difference and those of all called graphs."""
        yield self
        for difference in self.inner:
            yield from difference.walk()

    def to_json(self) -> str:
        """The difference as JSON."""
        return json.dumps(self._facts() | self._inner_facts(), indent=1) + "\n"

    def _inner_facts(self) -> dict[str, Any]:
        return (
            {"graphs": [{"name": difference.new.name, **difference._facts()} for difference in self.walk()][1:]}
            if self.inner
            else {}
        )

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "equal": not self,
            "removed": [{"name": node.name, "type": node.type} for node in self.removed],
            "added": [{"name": node.name, "type": node.type} for node in self.added],
            "changed": [
                {
                    "before": before,
                    "after": after,
                    "type": self.old.nodes[before].type,
                    "changes": [vars(c) for c in changes],
                }
                for (before, after), changes in self.changed.items()
            ],
            "renamed": self.renamed,
            **({"modules": modules} if (modules := self.by_module()).keys() - {""} else {}),
        }
        return facts | ({"graph": [vars(change) for change in self.graph_changes]} if self.graph_changes else {})


def compare_dumps(old: Dump, new: Dump) -> Difference:
    """Match the nodes of two dumps and compare attributes, types, inputs and called graphs of each pair."""
    result = _compare_graphs(old, new)
    result.inner += _compare_uncalled(result)
    result.graph_changes += [*_compare_graph_attributes(old, new), *_find_unmatched_graphs(result)]
    return result


def _compare_graphs(old: Dump, new: Dump) -> Difference:
    pairs = match_nodes(old, new)
    result = Difference(old, new, pairs=pairs)
    taken = set(pairs.values())
    result.removed = [node for node in old.order if node.name not in pairs]
    result.added = [node for node in new.order if node.name not in taken]
    for node in old.order:
        other = pairs.get(node.name)
        if other is None:
            continue
        changes = [
            *_compare_attributes(result, node, new.nodes[other]),
            *_compare_constants(result, node, new.nodes[other]),
            *_compare_types(result, node.name, other),
            *_compare_descs(result, node, new.nodes[other]),
            *_compare_wiring(result, node, other, pairs),
            *_compare_roles(result, node.name, other),
        ]
        if changes:
            result.changed[node.name, other] = changes
        if other != node.name:
            result.renamed[node.name] = other
        result.inner += _compare_subgraphs(result, node.name, other)
    return result


def _compare_graph_attributes(old: Dump, new: Dump) -> Iterator[Change]:
    """Compare the attributes of the graph, in which TorchAir records placement of inputs and dtypes of results."""
    if old.kind not in _KINDS_WITH_DESCS or new.kind not in _KINDS_WITH_DESCS:
        return
    before, after = old.graph_def.attr, new.graph_def.attr
    for name in sorted(set(before) & set(after)):
        if before[name] != after[name]:
            yield Change("attribute", name, format_attribute(name, before[name]), format_attribute(name, after[name]))


def _find_unmatched_graphs(result: Difference) -> Iterator[Change]:
    """Graphs that were matched with no graph of the other file."""
    seen = {id(dump) for difference in result.walk() for dump in (difference.old, difference.new)}
    for dump, is_old in ((result.old, True), (result.new, False)):
        for graph in dump.graphs():
            if id(graph) in seen:
                continue
            if result.old.kind != result.new.kind:
                result.one_sided["called graphs"] += len(graph.nodes)
                continue
            ends = f"{len(graph.nodes)} nodes", "nothing"
            yield Change("graph", graph.name, *(ends if is_old else reversed(ends)))


def _compare_roles(result: Difference, before: str, after: str) -> Iterator[Change]:
    """Graphs that only one of two matched nodes calls."""
    if result.old.kind != result.new.kind:
        return
    mine, theirs = (
        {call.role: printable(call.graph.name, 120) for call in dump.calls.get(name, ())}
        for dump, name in ((result.old, before), (result.new, after))
    )
    for role in sorted(mine.keys() ^ theirs.keys()):
        yield Change("graph", role, mine.get(role, "nothing"), theirs.get(role, "nothing"))


def _compare_subgraphs(result: Difference, before: str, after: str) -> Iterator[Difference]:
    """Compare the graphs that two matched nodes call, by role."""
    mine = {call.role: call.graph for call in result.old.calls.get(before, ())}
    theirs = {call.role: call.graph for call in result.new.calls.get(after, ())}
    for role in sorted(mine.keys() & theirs.keys()):
        inner = _compare_graphs(mine[role], theirs[role])
        _add_caller_wiring(inner, result.old.nodes[before], result.new.nodes[after])
        yield inner


def _add_caller_wiring(inner: Difference, before: Node, after: Node) -> None:
    """Add changes of how callers and called graphs are connected."""
    if inner.old.kind != inner.new.kind:
        return
    fed, now = map_inputs(inner.old, before), map_inputs(inner.new, after)
    for name, other in inner.pairs.items():
        if fed.get(name) != now.get(other):
            change = Change("wiring", "input of the caller", str(fed.get(name)), str(now.get(other)))
            inner.changed.setdefault((name, other), []).append(change)
        if inner.old.nodes[name].type == OUTPUT_TYPE:
            outputs = [map_outputs(end) for end in (inner.old.nodes[name], inner.new.nodes[other])]
            for index in outputs[0].keys() & outputs[1].keys():
                if outputs[0][index] != outputs[1][index]:
                    ends = str(outputs[0][index]), str(outputs[1][index])
                    inner.changed.setdefault((name, other), []).append(
                        Change("wiring", f"output of the caller that is input {index}", *ends)
                    )


def _compare_uncalled(result: Difference) -> Iterator[Difference]:
    """Compare graphs of equal name if one of the files does not state their callers."""
    if not (result.old.uncalled or result.new.uncalled):
        return
    seen = {id(dump) for difference in result.walk() for dump in (difference.old, difference.new)}
    mine, theirs = (
        {graph.name: graph for graph in dump.graphs() if id(graph) not in seen} for dump in (result.old, result.new)
    )
    for name in sorted(mine.keys() & theirs.keys()):
        yield _compare_graphs(mine[name], theirs[name])


def _compare_attributes(result: Difference, node: Node, other: Node) -> Iterator[Change]:
    if attribute_key(node) == attribute_key(other):
        return
    before, after = node.proto.attr, other.proto.attr
    printed = "ge_readable" in (result.old.kind, result.new.kind)
    names = compared_attributes(result.old, node, NAMING) | compared_attributes(result.new, other, NAMING)
    for name in sorted(names - _compared_by_value(result, node)):
        first, second = (
            attrs[name] if name in attrs and attrs[name].WhichOneof("value") else None for attrs in (before, after)
        )
        if first == second or (first and second and is_same_attribute(first, second, printed=printed)):
            continue
        if _is_one_sided(result, node, other, name, first, second):
            continue
        shown = ["absent" if value is None else format_attribute(name, value) for value in (first, second)]
        yield Change("attribute", name, *shown)


def _is_one_sided(result: Difference, node: Node, other: Node, name: str, first: Any, second: Any) -> bool:
    """Whether only one file has the attribute because the format of the other cannot express it."""
    sides = ((result.old, node, first, second), (result.new, other, second, first))
    for dump, mine, own, theirs in sides:
        if own is None and not can_express(dump, mine, name, theirs):
            result.one_sided["attributes"] += 1
            return True
    return False


def _compared_by_value(result: Difference, node: Node) -> set[str]:
    """Attributes that `_compare_constants` compares instead."""
    return {"value"} if node.type in CONST_TYPES or {result.old.kind, result.new.kind} & GE_KINDS else set()


def _compare_constants(result: Difference, node: Node, other: Node) -> Iterator[Change]:
    """Compare the values of constants and variables: bytes if both files have them, else the printed text."""
    if "value" not in _compared_by_value(result, node):
        return
    bytes_of = constant_data(node), constant_data(other)
    if None not in bytes_of:
        if bytes_of[0] != bytes_of[1]:
            shown = [format_constant(node), format_constant(other)]
            shown[1] += " (other bytes)" if shown[0] == shown[1] else ""
            yield Change("attribute", "value", *shown)
        return
    printed = printed_constant(node), printed_constant(other)
    if printed[0] is not None and printed[1] is not None and printed[0] != printed[1]:
        yield Change("attribute", "value", format_constant(node), format_constant(other))
    elif printed[0] is not None or printed[1] is not None:
        known = result.one_sided if bytes_of != (None, None) else result.unknown
        if bytes_of != (None, None) or _is_shortened(printed[0] or printed[1] or ""):
            known["the bytes of constants"] += 1
    elif node.type in CONST_TYPES:
        result.unknown["the bytes of constants"] += 1


def _is_shortened(text: str) -> bool:
    """Whether a printed constant is abbreviated."""
    return "..." in text or "…" in text or text.startswith("<")


def _compare_descs(result: Difference, node: Node, other: Node) -> Iterator[Change]:
    """Compare how descs disagree with the inferred types."""
    if result.old.kind not in _KINDS_WITH_DESCS or result.new.kind not in _KINDS_WITH_DESCS:
        return
    before, after = (
        "; ".join(map(printable, dump.inference.disagreements.get(owner.name, ())))
        for dump, owner in ((result.old, node), (result.new, other))
    )
    if before != after:
        yield Change("desc", "disagrees", before or "no", after or "no")
    # GE replaces dtypes and sizes of inputs by those of the nodes that compute them.
    layouts = [[desc.layout or "ND" for desc in owner.proto.input_desc] for owner in (node, other)]
    for index, (one, two) in enumerate(zip(*layouts, strict=False)):
        if one != two:
            yield Change("format", f"input {index}", printable(one, 40), printable(two, 40))
    if node.type in INPUT_TYPES:
        sizes = [[list(desc.shape.dim) for desc in owner.proto.output_desc] for owner in (node, other)]
        if sizes[0] != sizes[1]:
            yield Change("desc", "sizes", *map(str, sizes))


def _compare_types(result: Difference, before: str, after: str) -> Iterator[Change]:
    first, second = result.old.inference.types[before], result.new.inference.types[after]
    descs = result.old.nodes[before].proto.output_desc
    for index, (one, two) in enumerate(zip(first, second, strict=False)):
        name = (descs[index].name if index < len(descs) else "") or f"output {index}"
        if UNDEFINED in (one.dtype, two.dtype) and result.old.kind != result.new.kind:
            result.one_sided["dtypes and shapes"] += one != two
            continue
        if str(one.layout) != str(two.layout):
            yield Change("format", name, str(one.layout) or "ND", str(two.layout) or "ND")
        if one.dtype != two.dtype:
            yield Change("dtype", name, one.dtype, two.dtype)
        if one.shape != two.shape and not (result.old.kind != result.new.kind and _is_compatible_shape(one, two)):
            yield Change("shape", name, str(one), str(two))
    if len(first) != len(second) and "ge_readable" not in (result.old.kind, result.new.kind):
        yield Change("dtype", "outputs", str(len(first)), str(len(second)))


def _is_compatible_shape(one: TensorType, two: TensorType) -> bool:
    """Whether shapes differ only in sizes that one dump does not state; such a symbol is named after its node."""
    if one.shape is None or two.shape is None:
        return True
    return len(one.shape) == len(two.shape) and all(
        a == b or any(_UNSTATED_SIZE.search(str(size)) for size in (a, b))
        for a, b in zip(one.shape, two.shape, strict=True)
    )


def _compare_wiring(result: Difference, node: Node, other: str, pairs: dict[str, str]) -> Iterator[Change]:
    before = {edge.name: (edge.node, edge.output) for edge in node.inputs if edge.node}
    after = {edge.name: (edge.node, edge.output) for edge in result.new.nodes[other].inputs if edge.node}
    for name in {**before, **after}:
        first, second = before.get(name), after.get(name)
        expected = (pairs.get(first[0]), first[1]) if first else None
        if expected != second:
            shown = [f"{printable(end[0], 120)}:{end[1]}" if end else "nothing" for end in (first, second)]
            yield Change("wiring", name, *shown)
    waits = sorted(pairs.get(name, f"- {name}") for name in node.controls)
    if "ge_readable" in (result.old.kind, result.new.kind) and not (waits and result.new.nodes[other].controls):
        result.one_sided["control edges"] += bool(waits or result.new.nodes[other].controls)
    elif waits != sorted(result.new.nodes[other].controls):
        yield Change(
            "wiring",
            "control",
            ", ".join(node.controls) or "nothing",
            ", ".join(result.new.nodes[other].controls) or "nothing",
        )
