"""What changed between two graphs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, UNDEFINED, Node, in_words, printable
from ..graph.shapes import TensorType
from ..graph.text import constant_text, node_line
from ..read.contents import GE_KINDS
from .carried import carries, constant, names, same
from .match import NAMING, attribute_key, match

if TYPE_CHECKING:
    from ..dump import Dump

_UNSTATED = re.compile(r"\.\d+$")


@dataclass(frozen=True)
class Change:
    """One fact of a matched node that differs; ``kind`` is attribute, dtype, shape, format or wiring."""

    kind: str
    what: str
    before: str
    after: str


@dataclass
class Difference:
    """Nodes added, removed and changed; those in ``renamed`` only have another name, which is no difference.

    ``pairs`` are the nodes that were matched, ``inner`` the differences of the graphs that matched nodes call;
    ``untold`` is what only one of the files tells.
    """

    old: Dump
    new: Dump
    added: list[Node] = field(default_factory=list)
    removed: list[Node] = field(default_factory=list)
    changed: dict[tuple[str, str], list[Change]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    pairs: dict[str, str] = field(default_factory=dict)
    inner: list[Difference] = field(default_factory=list)
    untold: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        """Whether the graphs differ."""
        return bool(self.added or self.removed or self.changed or any(self.inner))

    def lines(self) -> Iterator[str]:
        """The difference as text: ``-`` gone, ``+`` new, ``~`` changed."""
        yield from (f"- {node_line(self.old, node)}" for node in self.removed)
        yield from (f"+ {node_line(self.new, node)}" for node in self.added)
        for (before, after), changes in self.changed.items():
            name = (
                printable(before, 120) if before == after else f"{printable(before, 120)} (now {printable(after, 120)})"
            )
            yield f"~ {name}: {printable(self.old.nodes[before].type, 120)}"
            yield from (f"    {c.kind} {printable(c.what, 120)}: {c.before} -> {c.after}" for c in changes)
        for each in filter(None, self.inner):
            yield f"in graph {printable(each.new.name, 120)}:"
            yield from (f"  {line}" for line in each.lines())
        if self:
            counts = f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed"
            yield f"{counts}; {len(self.old.nodes)} nodes before, {len(self.new.nodes)} after"
        else:
            graphs = list(self.all())
            nodes = sum(len(each.old.nodes) for each in graphs)
            renamed = sum(len(each.renamed) for each in graphs)
            other = f", {renamed} under another name" if renamed else ""
            yield f"no difference in {nodes} nodes{other}"
            if told := sum((each.untold for each in graphs), Counter()):
                parts = ", ".join(f"{what} ({count} nodes)" for what, count in sorted(told.items()))
                yield f"only one of the two files tells: {parts}"

    def all(self) -> Iterator[Difference]:
        """Itself and the differences of all graphs that are called."""
        yield self
        for each in self.inner:
            yield from each.all()

    def to_json(self) -> str:
        """The difference for programs."""
        return json.dumps(self._facts() | self._inner_facts(), indent=1) + "\n"

    def _inner_facts(self) -> dict[str, Any]:
        return {"graphs": [{"name": each.new.name, **each._facts()} for each in self.all()][1:]} if self.inner else {}

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
        }
        return facts


def compare(old: Dump, new: Dump) -> Difference:
    """Match the nodes of two dumps and compare what each does, yields and reads."""
    pairs = match(old, new)
    result = Difference(old, new, pairs=pairs)
    taken = set(pairs.values())
    result.removed = [node for node in old.order if node.name not in pairs]
    result.added = [node for node in new.order if node.name not in taken]
    for node in old.order:
        other = pairs.get(node.name)
        if other is None:
            continue
        changes = [
            *_attributes(result, node, new.nodes[other]),
            *_types(result, node.name, other),
            *_wiring(result, node, other, pairs),
        ]
        if changes:
            result.changed[node.name, other] = changes
        if other != node.name:
            result.renamed[node.name] = other
        result.inner += _called(result, node.name, other)
    result.inner += _uncalled(result)
    return result


def _called(result: Difference, before: str, after: str) -> Iterator[Difference]:
    """The differences of the graphs that two matched nodes call, by what they are to them."""
    mine = {call.role: call.graph for call in result.old.calls.get(before, ())}
    theirs = {call.role: call.graph for call in result.new.calls.get(after, ())}
    for role in mine.keys() & theirs.keys():
        yield compare(mine[role], theirs[role])


def _uncalled(result: Difference) -> Iterator[Difference]:
    """The differences of graphs of one name, where one of the files does not say who calls them."""
    if not (result.old.uncalled or result.new.uncalled):
        return
    seen = {id(dump) for each in result.all() for dump in (each.old, each.new)}
    mine, theirs = (
        {graph.name: graph for graph in dump.graphs() if id(graph) not in seen} for dump in (result.old, result.new)
    )
    for name in sorted(mine.keys() & theirs.keys()):
        yield compare(mine[name], theirs[name])


def _attributes(result: Difference, node: Node, other: Node) -> Iterator[Change]:
    if attribute_key(node) == attribute_key(other):
        return
    before, after = node.proto.attr, other.proto.attr
    printed = "ge_readable" in (result.old.kind, result.new.kind)
    for name in sorted(names(result.old, node, NAMING) | names(result.new, other, NAMING)):
        first, second = (
            attrs[name] if name in attrs and attrs[name].WhichOneof("value") else None for attrs in (before, after)
        )
        if first == second or (first and second and name != "value" and same(first, second, printed=printed)):
            continue
        if _is_untold(result, node, other, name, first, second):
            continue
        if name == "value" and node.type in CONST_TYPES:
            shown = [constant_text(node), constant_text(other)]
            shown[1] += " (other bytes)" if shown[0] == shown[1] else ""
        else:
            shown = ["absent" if value is None else in_words(name, value) for value in (first, second)]
        yield Change("attribute", name, *shown)


def _is_untold(result: Difference, node: Node, other: Node, name: str, first: Any, second: Any) -> bool:
    """Whether only one of the files tells an attribute, because the format of the other has no room for it."""
    sides = ((result.old, node, first, second), (result.new, other, second, first))
    for dump, mine, own, theirs in sides:
        if own is None and not carries(dump, mine, name, theirs):
            result.untold["attributes"] += 1
            return True
    if name == "value" and {result.old.kind, result.new.kind} & GE_KINDS:
        values = constant(node), constant(other)
        if None in values or values[0] == values[1]:
            result.untold["the bytes of constants"] += 1
            return True
    return False


def _types(result: Difference, before: str, after: str) -> Iterator[Change]:
    first, second = result.old.inference.types[before], result.new.inference.types[after]
    descs = result.old.nodes[before].proto.output_desc
    for index, (one, two) in enumerate(zip(first, second, strict=False)):
        name = (descs[index].name if index < len(descs) else "") or f"output {index}"
        if UNDEFINED in (one.dtype, two.dtype) and result.old.kind != result.new.kind:
            result.untold["dtypes and shapes"] += one != two
            continue
        if str(one.layout) != str(two.layout):
            yield Change("format", name, str(one.layout) or "ND", str(two.layout) or "ND")
        if one.dtype != two.dtype:
            yield Change("dtype", name, one.dtype, two.dtype)
        if one.shape != two.shape and not (result.old.kind != result.new.kind and _may_be(one, two)):
            yield Change("shape", name, str(one), str(two))
    if len(first) != len(second) and "ge_readable" not in (result.old.kind, result.new.kind):
        yield Change("dtype", "outputs", str(len(first)), str(len(second)))


def _may_be(one: TensorType, two: TensorType) -> bool:
    """Whether two shapes differ only where one of the dumps states no size; such a size is called after its node."""
    if one.shape is None or two.shape is None:
        return True
    return len(one.shape) == len(two.shape) and all(
        a == b or any(_UNSTATED.search(str(size)) for size in (a, b)) for a, b in zip(one.shape, two.shape, strict=True)
    )


def _wiring(result: Difference, node: Node, other: str, pairs: dict[str, str]) -> Iterator[Change]:
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
        result.untold["control edges"] += bool(waits or result.new.nodes[other].controls)
    elif waits != sorted(result.new.nodes[other].controls):
        yield Change(
            "wiring",
            "control",
            ", ".join(node.controls) or "nothing",
            ", ".join(result.new.nodes[other].controls) or "nothing",
        )
