"""The outline of a graph: the modules it came from, or the repeating layers found in it.

An item of the outline stands for one block of nodes, or for several equal blocks. The page and ``inspect --tree`` show
the same items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise, takewhile
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, QUANTISED, Node
from .repeats import find_repeats

if TYPE_CHECKING:
    from ..dump import Dump

_LEAST_KNOWN = 0.5  # the fraction of computing nodes with a module that an outline by modules needs
_MOST_DIFFERENCES = 8
_DEEPEST = 32  # nesting of modules
_MOST_SHOWN_NODES = 400  # nodes of one item without structure
_MOST_LOOSE = 0.25  # the fraction of a module that is grouped where it is in no submodule
_LEAST_LOOSE = 6  # consecutive nodes beside submodules that become an item of their own

_Path = tuple[str, ...]


@dataclass
class Item:
    """One entry of the outline; ``kind`` is graph, module, layers, block or nodes.

    ``nodes`` are those in no child. An item that repeats has only ``repetitions``, in order; ``differs`` says in what
    they are not equal.
    """

    label: str
    kind: str
    nodes: list[str] = field(default_factory=list)
    children: list[Item] = field(default_factory=list)
    repetitions: list[Item] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)

    @property
    def times(self) -> int:
        """The number of repetitions."""
        return max(len(self.repetitions), 1)

    @property
    def first(self) -> Item:
        """The item itself, or the first of its repetitions."""
        return self.repetitions[0] if self.repetitions else self

    def names(self) -> Iterator[str]:
        """Yield all node names, of every repetition."""
        yield from self.nodes
        for child in (*self.repetitions, *self.children):
            yield from child.names()


def build_outline(dump: Dump) -> Item:
    """Build the outline of one graph, without the graphs that it calls."""
    shown = [node for node in dump.order if _is_step(node)]
    known = sum(bool(node.source.module) for node in shown)
    root = Item(dump.name or "graph", "graph")
    if shown and known >= _LEAST_KNOWN * len(shown):
        _group_by_modules(dump, shown, root)
    else:
        _group_by_layers(dump, shown, root)
    root.nodes = [node.name for node in dump.order if not _is_step(node)] + root.nodes
    return root


def count_quantised(dump: Dump, names: Sequence[str]) -> int:
    """Count those of the nodes that read or write quantised tensors."""
    types = dump.inference
    return sum(
        any(tensor.dtype in QUANTISED for tensor in (*types.input_types(dump.nodes[name]), *types.types[name]))
        for name in names
        if _is_step(dump.nodes[name])
    )


def _is_step(node: Node) -> bool:
    return node.type not in CONST_TYPES | OUTSIDE_TYPES | END_TYPES


def _group_by_modules(dump: Dump, nodes: Sequence[Node], root: Item) -> None:
    items = {"": root}

    def item(parts: tuple[str, ...]) -> Item:
        path = ".".join(parts)
        if path not in items:
            items[path] = Item(parts[-1], "module")
            item(parts[:-1]).children.append(items[path])
        return items[path]

    paths = _module_paths(dump, nodes)
    for node in nodes:
        item(paths[node.name]).nodes.append(node.name)
    for parent in list(items.values()):
        _group_loose_nodes(dump, parent)
    _merge_alike(dump, root)


def _module_paths(dump: Dump, nodes: Sequence[Node]) -> dict[str, _Path]:
    """The module of each node; a node without one belongs where all its readers are."""
    paths: dict[str, _Path] = {}
    for node in reversed(nodes):
        path = tuple(node.source.module.split(".")) if node.source.module else ()
        readers = [paths.get(reader.name, ()) for reader, _ in dump.consumers[node.name]]
        paths[node.name] = (path or (_common_path(readers) if readers else ()))[:_DEEPEST]
    return paths


def _common_path(paths: list[_Path]) -> _Path:
    alike = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return tuple(names[0] for names in alike)


def _group_loose_nodes(dump: Dump, parent: Item) -> None:
    """Put nodes beside larger submodules, such as those that compute a mask, into items of consecutive nodes."""
    position = dump.position
    first = {min(child.names(), key=position.__getitem__): child for child in parent.children}
    if len(parent.nodes) > _MOST_LOOSE * len(list(parent.names())):
        return
    loose = set(parent.nodes)
    parent.nodes, parent.children = [], []
    for is_loose, names in groupby(sorted((*loose, *first), key=position.__getitem__), loose.__contains__):
        run = list(names)
        if not is_loose:
            parent.children += [first[name] for name in run]
        elif len(run) < _LEAST_LOOSE:
            parent.nodes += run
        else:
            parent.children += _split_items([dump.nodes[name] for name in run])


def _merge_alike(dump: Dump, parent: Item) -> None:
    """Merge consecutive siblings of equal structure into one item, from the leaves up."""
    for child in parent.children:
        _merge_alike(dump, child)
    parent.children = [
        alike[0] if len(alike) == 1 else _repeated_item(dump, f"{alike[0].label} … {alike[-1].label}", "module", alike)
        for alike in (list(some) for _, some in groupby(parent.children, lambda child: _node_types(dump, child)))
    ]


def _node_types(dump: Dump, item: Item) -> tuple[str, ...]:
    return tuple(dump.nodes[name].type for name in item.names())


def _repeated_item(dump: Dump, label: str, kind: str, alike: list[Item]) -> Item:
    return Item(label, kind, repetitions=alike, differs=list_differences(dump, [list(item.names()) for item in alike]))


def _group_by_layers(dump: Dump, nodes: Sequence[Node], root: Item) -> None:
    end = 0
    for start, period, times in find_repeats([node.type for node in nodes]):
        root.children += _split_items(nodes[end:start])
        end = start + period * times
        blocks = [
            Item(f"block {number}", "block", [node.name for node in nodes[begin : begin + period]])
            for number, begin in enumerate(range(start, end, period))
        ]
        root.children.append(_repeated_item(dump, f"block of {period} nodes", "layers", blocks))
    if root.children or len(nodes) > _MOST_SHOWN_NODES:
        root.children += _split_items(nodes[end:])
    else:
        root.nodes = [node.name for node in nodes]


def _split_items(nodes: Sequence[Node]) -> list[Item]:
    """Split nodes that do not repeat into items of a readable size."""
    pieces = -(-len(nodes) // _MOST_SHOWN_NODES)
    ends = [len(nodes) * number // pieces for number in range(pieces + 1)] if pieces else []
    return [_nodes_item(nodes[start:end]) for start, end in pairwise(ends)]


def _nodes_item(nodes: Sequence[Node]) -> Item:
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(node.type for node in nodes).most_common(3))
    return Item(kinds, "nodes", [node.name for node in nodes])


def list_differences(dump: Dump, blocks: Sequence[Sequence[str]]) -> list[str]:
    """Compare blocks with the same node types, position by position, in attributes and result types."""
    differences: list[str] = []
    for index, first in enumerate(blocks[0]):
        nodes = [dump.nodes[block[index]] for block in blocks]
        facts = [dump.attributes(node) for node in nodes]
        for name in sorted({key for node_facts in facts for key in node_facts}):
            differences += _format_difference(
                f"{first} {name}", [node_facts.get(name, "absent") for node_facts in facts]
            )
        types = dump.inference.types
        differences += _format_difference(f"{first} result", [", ".join(map(str, types[node.name])) for node in nodes])
    hidden = len(differences) - _MOST_DIFFERENCES
    return differences[:_MOST_DIFFERENCES] + ([f"{hidden} more"] if hidden > 0 else [])


def _format_difference(what: str, values: Sequence[str]) -> list[str]:
    counts = Counter(values)
    if len(counts) == 1:
        return []
    shown = [f"{value} ×{count}" for value, count in counts.most_common(3)]
    return [f"{what}: {', '.join(shown)}{', …' if len(counts) > 3 else ''}"]
