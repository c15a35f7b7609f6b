"""The outline of a graph: the modules it came from, or the layers found in it, each kind of layer once.

An item of the outline stands for one stretch of nodes, or for several ``alike``. The page and ``inspect --tree`` show
the same items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, QUANTISED, Node
from .repeats import repeats

if TYPE_CHECKING:
    from ..dump import Dump

_LEAST_KNOWN = 0.5  # of the computing nodes have a module, for an outline by modules
_MOST_DIFFERENCES = 8
_DEEPEST = 32  # modules within each other
_LONGEST_STRETCH = 400  # nodes that are shown side by side


@dataclass
class Item:
    """``kind`` is graph, module, layers, block or nodes. ``own`` are nodes that stand in no child.

    One that repeats has its repetitions in ``alike``, in order, and nothing else; ``differs`` says what is not alike.
    """

    label: str
    kind: str
    own: list[str] = field(default_factory=list)
    children: list[Item] = field(default_factory=list)
    alike: list[Item] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)

    @property
    def times(self) -> int:
        """How often it stands in the graph."""
        return max(len(self.alike), 1)

    @property
    def first(self) -> Item:
        """Itself, or the first of its repetitions."""
        return self.alike[0] if self.alike else self

    def names(self) -> Iterator[str]:
        """All its nodes, of every repetition."""
        yield from self.own
        for child in (*self.alike, *self.children):
            yield from child.names()


def outline(dump: Dump) -> Item:
    """The outline of one graph; of those that it calls, each has its own."""
    shown = [node for node in dump.order if _is_step(node)]
    known = sum(bool(node.source.module) for node in shown)
    root = Item(dump.name or "graph", "graph")
    if shown and known >= _LEAST_KNOWN * len(shown):
        _by_modules(dump, shown, root)
    else:
        _by_layers(dump, shown, root)
    root.own = [node.name for node in dump.order if not _is_step(node)] + root.own
    return root


def quantised(dump: Dump, names: Sequence[str]) -> int:
    """How many of these nodes read or write quantised tensors."""
    types = dump.inference
    return sum(
        any(found.dtype in QUANTISED for found in (*types.reads(dump.nodes[name]), *types.types[name]))
        for name in names
        if _is_step(dump.nodes[name])
    )


def _is_step(node: Node) -> bool:
    return node.type not in CONST_TYPES | OUTSIDE_TYPES | END_TYPES


def _by_modules(dump: Dump, nodes: Sequence[Node], root: Item) -> None:
    items = {"": root}

    def item(parts: tuple[str, ...]) -> Item:
        path = ".".join(parts)
        if path not in items:
            items[path] = Item(parts[-1], "module")
            item(parts[:-1]).children.append(items[path])
        return items[path]

    for node in nodes:
        parts = tuple(node.source.module.split(".")) if node.source.module else ()
        item(parts[:_DEEPEST]).own.append(node.name)
    _merge(dump, root)


def _merge(dump: Dump, parent: Item) -> None:
    """Put siblings of one structure into one item, from the leaves up."""
    for child in parent.children:
        _merge(dump, child)
    parent.children = [
        alike[0] if len(alike) == 1 else _repeated(dump, f"{alike[0].label} … {alike[-1].label}", "module", alike)
        for alike in (list(some) for _, some in groupby(parent.children, lambda child: _structure(dump, child)))
    ]


def _structure(dump: Dump, item: Item) -> tuple[str, ...]:
    return tuple(dump.nodes[name].type for name in item.names())


def _repeated(dump: Dump, label: str, kind: str, alike: list[Item]) -> Item:
    return Item(label, kind, alike=alike, differs=differences(dump, [list(each.names()) for each in alike]))


def _by_layers(dump: Dump, nodes: Sequence[Node], root: Item) -> None:
    end = 0
    for start, period, times in repeats([node.type for node in nodes]):
        root.children += _stretches(nodes[end:start])
        end = start + period * times
        blocks = [
            Item(f"block {number}", "block", [node.name for node in nodes[at : at + period]])
            for number, at in enumerate(range(start, end, period))
        ]
        root.children.append(_repeated(dump, f"block of {period} nodes", "layers", blocks))
    if root.children or len(nodes) > _LONGEST_STRETCH:
        root.children += _stretches(nodes[end:])
    else:
        root.own = [node.name for node in nodes]


def _stretches(nodes: Sequence[Node]) -> list[Item]:
    """What does not repeat, in pieces that can be looked at."""
    pieces = -(-len(nodes) // _LONGEST_STRETCH)
    ends = [len(nodes) * number // pieces for number in range(pieces + 1)] if pieces else []
    return [_stretch(nodes[start:end]) for start, end in pairwise(ends)]


def _stretch(nodes: Sequence[Node]) -> Item:
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(node.type for node in nodes).most_common(3))
    return Item(kinds, "nodes", [node.name for node in nodes])


def differences(dump: Dump, blocks: Sequence[Sequence[str]]) -> list[str]:
    """What is not alike at one place of blocks that have the same types at every place."""
    found: list[str] = []
    for place, first in enumerate(blocks[0]):
        nodes = [dump.nodes[block[place]] for block in blocks]
        facts = [dump.attributes(node) for node in nodes]
        for name in sorted({key for each in facts for key in each}):
            found += _unlike(f"{first} {name}", [each.get(name, "absent") for each in facts])
        types = dump.inference.types
        found += _unlike(f"{first} result", [", ".join(map(str, types[node.name])) for node in nodes])
    hidden = len(found) - _MOST_DIFFERENCES
    return found[:_MOST_DIFFERENCES] + ([f"{hidden} more"] if hidden > 0 else [])


def _unlike(what: str, values: Sequence[str]) -> list[str]:
    counts = Counter(values)
    if len(counts) == 1:
        return []
    shown = [f"{value} ×{count}" for value, count in counts.most_common(3)]
    return [f"{what}: {', '.join(shown)}{', …' if len(counts) > 3 else ''}"]
