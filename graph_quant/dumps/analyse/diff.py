"""What changed between two graphs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ge.attributes import in_words
from ...ge.errors import printable
from ...ge.graph import CONST_TYPES, Node
from ..graph.text import constant_text, node_line
from .match import NAMING, attribute_key, match

if TYPE_CHECKING:
    from ..dump import Dump


@dataclass(frozen=True)
class Change:
    """One fact of a matched node that differs; ``kind`` is attribute, dtype, shape or wiring."""

    kind: str
    what: str
    before: str
    after: str


@dataclass
class Difference:
    """Nodes added, removed and changed; those in ``renamed`` only have another name, which is no difference."""

    old: Dump
    new: Dump
    added: list[Node] = field(default_factory=list)
    removed: list[Node] = field(default_factory=list)
    changed: dict[tuple[str, str], list[Change]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether the graphs differ."""
        return bool(self.added or self.removed or self.changed)

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
        if self:
            counts = f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed"
            yield f"{counts}; {len(self.old.nodes)} nodes before, {len(self.new.nodes)} after"
        else:
            other = f", {len(self.renamed)} under another name" if self.renamed else ""
            yield f"no difference in {len(self.old.nodes)} nodes{other}"

    def to_json(self) -> str:
        """The difference for programs."""
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
        return json.dumps(facts, indent=1) + "\n"


def compare(old: Dump, new: Dump) -> Difference:
    """Match the nodes of two dumps and compare what each does, yields and reads."""
    pairs = match(old, new)
    result = Difference(old, new)
    taken = set(pairs.values())
    result.removed = [node for node in old.order if node.name not in pairs]
    result.added = [node for node in new.order if node.name not in taken]
    for node in old.order:
        other = pairs.get(node.name)
        if other is None:
            continue
        changes = [
            *_attributes(node, new.nodes[other]),
            *_types(result, node.name, other),
            *_wiring(result, node, other, pairs),
        ]
        if changes:
            result.changed[node.name, other] = changes
        if other != node.name:
            result.renamed[node.name] = other
    return result


def _attributes(node: Node, other: Node) -> Iterator[Change]:
    if attribute_key(node) == attribute_key(other):
        return
    before, after = node.proto.attr, other.proto.attr
    for name in sorted({*before, *after} - NAMING):
        first, second = (
            attrs[name] if name in attrs and attrs[name].WhichOneof("value") else None for attrs in (before, after)
        )
        if first == second:
            continue
        if name == "value" and node.type in CONST_TYPES:
            shown = [constant_text(node), constant_text(other)]
            shown[1] += " (other bytes)" if shown[0] == shown[1] else ""
        else:
            shown = ["absent" if value is None else in_words(name, value) for value in (first, second)]
        yield Change("attribute", name, *shown)


def _types(result: Difference, before: str, after: str) -> Iterator[Change]:
    first, second = result.old.inference.types[before], result.new.inference.types[after]
    descs = result.old.nodes[before].proto.output_desc
    for index, (one, two) in enumerate(zip(first, second, strict=False)):
        name = (descs[index].name if index < len(descs) else "") or f"output {index}"
        if one.dtype != two.dtype:
            yield Change("dtype", name, one.dtype, two.dtype)
        if one.shape != two.shape:
            yield Change("shape", name, str(one), str(two))
    if len(first) != len(second):
        yield Change("dtype", "outputs", str(len(first)), str(len(second)))


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
    if waits != sorted(result.new.nodes[other].controls):
        yield Change(
            "wiring",
            "control",
            ", ".join(node.controls) or "nothing",
            ", ".join(result.new.nodes[other].controls) or "nothing",
        )
