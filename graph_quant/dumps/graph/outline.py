"""The outline of a graph: the modules it came from, or the layers found in it, each kind of layer once.

An item of the outline stands for one stretch of nodes, or for several alike: ``blocks`` are the nodes of each. The page
and ``inspect --tree`` show the same items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ge.dtypes import QUANTISED
from ...ge.graph import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, Node
from .layers import repeats

if TYPE_CHECKING:
    from ..dump import Dump

_LEAST_KNOWN = 0.5  # of the computing nodes have a module, for an outline by modules
_MOST_DIFFERENCES = 8


@dataclass
class Item:
    """``kind`` is graph, module, layers or nodes. ``own`` are nodes that stand in no child.

    ``blocks`` are the nodes of each repetition, in order; ``differs`` says what is not alike in them.
    """

    label: str
    kind: str
    own: list[str] = field(default_factory=list)
    children: list[Item] = field(default_factory=list)
    blocks: list[list[str]] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)

    @property
    def times(self) -> int:
        """How often it stands in the graph."""
        return max(len(self.blocks), 1)

    def names(self) -> Iterator[str]:
        """All its nodes, of every repetition."""
        if self.blocks:
            for block in self.blocks:
                yield from block
            return
        yield from self.own
        for child in self.children:
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
    items: dict[str, Item] = {"": root}

    def item(path: str) -> Item:
        if path not in items:
            items[path] = Item(path.rpartition(".")[2], "module")
            item(path.rpartition(".")[0]).children.append(items[path])
        return items[path]

    for node in nodes:
        item(node.source.module).own.append(node.name)
    _merge(dump, root)


def _merge(dump: Dump, parent: Item) -> None:
    """Put siblings of one structure into one item, from the leaves up."""
    for child in parent.children:
        _merge(dump, child)
    merged: list[Item] = []
    for child in parent.children:
        last = merged[-1] if merged else None
        if last is not None and _structure(dump, last) == _structure(dump, child):
            last.blocks = last.blocks or [list(last.names())]
            last.blocks.append(list(child.names()))
            last.label = f"{last.label.partition(' … ')[0]} … {child.label}"
        else:
            merged.append(child)
    for child in merged:
        if len(child.blocks) > 1:
            child.differs = differences(dump, child.blocks)
    parent.children = merged


def _structure(dump: Dump, item: Item) -> tuple[str, ...]:
    names = item.blocks[0] if item.blocks else list(item.names())
    return tuple(dump.nodes[name].type for name in names)


def _by_layers(dump: Dump, nodes: Sequence[Node], root: Item) -> None:
    end = 0
    for start, period, times in repeats([node.type for node in nodes]):
        if start > end:
            root.children.append(_stretch(nodes[end:start]))
        end = start + period * times
        blocks = [[node.name for node in nodes[at : at + period]] for at in range(start, end, period)]
        layers = Item(f"block of {period} nodes", "layers", list(blocks[0]), [], blocks)
        layers.differs = differences(dump, blocks)
        root.children.append(layers)
    if not root.children:
        root.own = [node.name for node in nodes]
    elif end < len(nodes):
        root.children.append(_stretch(nodes[end:]))


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
