"""Matches the nodes of two graphs, by structure before name."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, Node
from ..read.file_contents import GE_KINDS
from .format_coverage import integer_attributes

if TYPE_CHECKING:
    from ..dump import Dump

# Attributes that hold names and do not change what a node computes.
NAMING = {"_input_name_key", "_input_name_value", "_output_name_key", "_output_name_value", "_readable_value",
          "_module_path", "_source_line"}  # fmt: skip


def match_nodes(old: Dump, new: Dump) -> dict[str, str]:
    """Map nodes of ``old`` to nodes of ``new``, one to one and of equal type."""
    matcher = _Matcher(old, new)
    matcher.pair_weights()
    matcher.pair_inputs()
    matcher.pair_by_ancestry(within_module=True)
    matcher.pair_by_module()
    matcher.pair_by_ancestry()
    matcher.pair_by_name(lambda node: node.type in INPUT_TYPES | {OUTPUT_TYPE})
    matcher.spread_pairs()
    matcher.pair_by_name(lambda node: node.type not in CONST_TYPES)
    matcher.pair_ends()
    matcher.spread_pairs()
    if old.kind in GE_KINDS or new.kind in GE_KINDS:
        matcher.pair_by_name(lambda node: node.type in CONST_TYPES)
    return matcher.pairs


def attribute_key(node: Node) -> bytes:
    """A hash of the attributes of a node."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(node.proto.attr):
        if name not in NAMING and node.proto.attr[name].WhichOneof("value"):
            digest.update(repr((name, node.proto.attr[name].SerializeToString(deterministic=True))).encode())
    return digest.digest()


def _hash_ancestry(dump: Dump, inputs: dict[str, str], *, across: bool) -> dict[str, bytes]:
    """Hash every node together with its ancestors: equal hashes mean equal computations.

    With ``across``, only attributes that all formats of GE write exactly are hashed.
    """
    hashes: dict[str, bytes] = {}
    for node in dump.order:
        digest = hashlib.blake2b(digest_size=16)
        if node.type in INPUT_TYPES:
            digest.update(repr(("input", inputs.get(node.name, f"{id(dump)} {node.name}"))).encode())
        else:
            own = integer_attributes(node) if across else attribute_key(node)
            digest.update(repr((node.type, own)).encode())
        for edge in node.inputs:
            digest.update(repr((edge.name, hashes.get(edge.node, b""), edge.output)).encode())
        digest.update(b"".join(sorted(hashes[name] for name in node.controls)))
        hashes[node.name] = digest.digest()
    return hashes


def _name_key(node: Node) -> tuple[object, ...]:
    return node.name, *((desc.dtype, tuple(desc.shape.dim)) for desc in node.proto.output_desc)


def _index_key(node: Node) -> tuple[object, ...]:
    return node.proto.attr["index"].i, *_name_key(node)[1:]


class _Matcher:
    def __init__(self, old: Dump, new: Dump) -> None:
        self.old, self.new = old, new
        self.pairs: dict[str, str] = {}
        self._taken: set[str] = set()
        self._fresh: deque[str] = deque()

    def pair_inputs(self) -> None:
        """Pair graph inputs of equal dtype and shape by name, the rest by index."""
        old, new = ([node for node in dump.order if node.type in INPUT_TYPES] for dump in (self.old, self.new))
        for key in (_name_key, _index_key):
            candidates = {key(node): node for node in new if node.name not in self._taken}
            for node in old:
                if key(node) in candidates:
                    self._pair(node.name, candidates[key(node)].name)

    def pair_weights(self) -> None:
        """Pair inputs that are the same weight of the model, whatever their dtype and shape."""
        paths = [self._weights(dump) for dump in (self.old, self.new)]
        for path in paths[0].keys() & paths[1].keys():
            if len(paths[0][path]) == len(paths[1][path]) == 1:
                self._pair(paths[0][path][0], paths[1][path][0])

    @staticmethod
    def _weights(dump: Dump) -> dict[str, list[str]]:
        weights: dict[str, list[str]] = defaultdict(list)
        for node in dump.order:
            if node.type in INPUT_TYPES and node.source.module:
                weights[node.source.module].append(node.name)
        return weights

    def pair_by_module(self) -> None:
        """Pair the nodes of one type in one module, in execution order, if both graphs have as many."""
        groups: list[dict[tuple[str, str], list[str]]] = [defaultdict(list), defaultdict(list)]
        for dump, group, taken in zip((self.old, self.new), groups, (self.pairs, self._taken), strict=True):
            for node in dump.order:
                if node.source.module and node.name not in taken and node.type not in INPUT_TYPES | CONST_TYPES:
                    group[node.source.module, node.type].append(node.name)
        for key, names in groups[0].items():
            others = groups[1].get(key, [])
            if len(names) == len(others):
                for name, other in zip(names, others, strict=True):
                    self._pair(name, other)

    def pair_by_ancestry(self, *, within_module: bool = False) -> None:
        """Pair nodes of equal ancestry; of several candidates, the one of the same name first.

        With ``within_module``, only those of one module, so that equal layers are not exchanged.
        """
        candidates: dict[bytes, dict[str, None]] = defaultdict(dict)
        across = self.old.kind in GE_KINDS or self.new.kind in GE_KINDS
        for name, key in _hash_ancestry(self.new, {new: new for new in self.pairs.values()}, across=across).items():
            if name not in self._taken and (not within_module or self.new.nodes[name].source.module):
                candidates[key + self._module_key(self.new, name, within_module)][name] = None
        ancestry = {
            name: key + self._module_key(self.old, name, within_module)
            for name, key in _hash_ancestry(self.old, self.pairs, across=across).items()
            if name not in self.pairs
        }
        for name, key in ancestry.items():
            if name in candidates[key]:
                self._pair(name, name)
                del candidates[key][name]
        for name, key in ancestry.items():
            if name not in self.pairs and candidates[key]:
                other = next(iter(candidates[key]))
                self._pair(name, other)
                del candidates[key][other]

    @staticmethod
    def _module_key(dump: Dump, name: str, within_module: bool) -> bytes:
        return dump.nodes[name].source.module.encode() if within_module else b""

    def pair_ends(self) -> None:
        """Pair the output nodes if each graph has exactly one."""
        ends = [[node for node in dump.order if node.type == OUTPUT_TYPE] for dump in (self.old, self.new)]
        if all(len(nodes) == 1 for nodes in ends):
            self._pair(ends[0][0].name, ends[1][0].name)

    def pair_by_name(self, wanted: Callable[[Node], bool]) -> None:
        """Pair nodes of equal name and type."""
        for node in self.old.order:
            if node.name in self.new.nodes and wanted(node):
                self._pair(node.name, node.name)

    def spread_pairs(self) -> None:
        """Pair the neighbours of pairs: producers by input, consumers by input and order."""
        self._fresh = deque(self.pairs)
        while self._fresh:
            name = self._fresh.popleft()
            self._spread_up(name, self.pairs[name])
            self._spread_down(name, self.pairs[name])

    def _spread_up(self, name: str, other: str) -> None:
        mine = {edge.name: edge for edge in self.old.nodes[name].inputs}
        for edge in self.new.nodes[other].inputs:
            twin = mine.get(edge.name)
            if twin and twin.node and edge.node and twin.output == edge.output:
                self._pair(twin.node, edge.node)

    def _spread_down(self, name: str, other: str) -> None:
        waiting: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        for reader, position in self.new.consumers[other]:
            if reader.name not in self._taken:
                edge = reader.inputs[position]
                waiting[reader.type, edge.name, edge.output].append(reader.name)
        for reader, position in self.old.consumers[name]:
            edge = reader.inputs[position]
            candidates = waiting.get((reader.type, edge.name, edge.output))
            if reader.name not in self.pairs and candidates:
                same = reader.name in candidates
                self._pair(reader.name, candidates.pop(candidates.index(reader.name) if same else 0))

    def _pair(self, name: str, other: str) -> None:
        if name in self.pairs or other in self._taken or not _may_pair(self.old.nodes[name], self.new.nodes[other]):
            return
        self.pairs[name] = other
        self._taken.add(other)
        self._fresh.append(name)


def _may_pair(node: Node, other: Node) -> bool:
    """Whether two nodes may stand for each other: of one type, and not different weights, or values of other kinds."""
    if node.type != other.type:
        return False
    if node.type not in INPUT_TYPES | CONST_TYPES:
        return True
    paths = node.source.module, other.source.module
    if node.type in INPUT_TYPES and any(paths):
        return paths[0] == paths[1] or (not all(paths) and node.name == other.name)
    return node.name == other.name or _kind(node) == _kind(other)


def _kind(node: Node) -> tuple[object, ...]:
    """The dtype and rank that the desc of an input or constant states."""
    return (*((desc.dtype, len(desc.shape.dim)) for desc in node.proto.output_desc),)
