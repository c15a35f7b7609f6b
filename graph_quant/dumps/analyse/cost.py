"""Costs of a graph: bytes moved and operations of each node, and peak live memory.

Operations are counted by formula; a multiplication and an addition are two. Contractions count their inner dimension,
other operators a small number per element. Bytes are inputs plus outputs, each once; views are free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...ge import (
    BITS,
    CONST_TYPES,
    CONTRACTION,
    CONVOLUTION,
    END_TYPES,
    OUTSIDE_TYPES,
    QUANTISED,
    REDUCTION,
    Node,
    facts,
)
from ..graph.placement import read_placement
from ..graph.shapes import Dim, TensorType

if TYPE_CHECKING:
    from ..dump import Dump

_FREE = CONST_TYPES | OUTSIDE_TYPES | END_TYPES | {"NoOp"}
_MOST_TERMS = 24
_FILTER_FORMATS = ("FRACTAL_Z", "FRACTAL_Z_C04")  # storage formats of convolution weights


@dataclass(frozen=True)
class Cost:
    """Numbers or expressions over the dump's symbols; None if a size is unknown."""

    bytes: Dim | None
    flops: Dim | None


def tensor_bytes(tensor: TensorType) -> Dim | None:
    """Bytes of a tensor in its storage format; int4 counts half a byte."""
    shape = tensor.layout.shape or tensor.shape
    if shape is None or tensor.dtype not in BITS or any(isinstance(d, int) and d < 0 for d in shape):
        return None
    bits = math.prod(shape) * BITS[tensor.dtype]
    return -(-bits // 8) if isinstance(bits, int) else bits / 8


class Costs:
    """The costs of a dump.

    Args:
        dump: The dump.
        sizes: Sizes of symbols. Costs are expressions over symbols without a size.

    Attributes:
        missing: Symbols without a size.
        inner: The costs of called graphs by name.

    Raises:
        SizeError: If ``sizes`` names an unknown symbol.

    Examples:
        >>> costs = Costs(dump, {"s0": 4096})
        >>> costs.total("flops"), costs.peak, costs.nodes["MatMulV2"].bytes
    """

    def __init__(self, dump: Dump, sizes: Mapping[str, int] | None = None) -> None:
        dump.inference.check_symbols(sizes or ())
        self._dump = dump
        self._sizes = _substitutions(sizes or {})
        self.missing = [name for name in dump.inference.symbols if name not in (sizes or {})]
        self._numbers: dict[Any, Any] = {}
        self._bytes: dict[int, Dim | None] = {}
        self._known: dict[Any, Cost] = {}
        self.inner: dict[str, Costs] = {}
        for graph in (call.graph for calls in dump.calls.values() for call in calls):
            self.inner.setdefault(graph.name, Costs(graph, sizes))

    def of(self, graph: Dump) -> Costs | None:
        """The costs of a graph called from this one, at any depth."""
        if graph is self._dump:
            return self
        return next((match for costs in self.inner.values() if (match := costs.of(graph)) is not None), None)

    @cached_property
    def nodes(self) -> dict[str, Cost]:
        """The cost of every node; of a node that calls graphs, their cost."""
        return {node.name: self._node(node) for node in self._dump.order}

    @cached_property
    def fixed(self) -> set[str]:
        """Nodes that depend only on constants, which GE folds."""
        fixed: set[str] = set()
        for node in self._dump.order:
            producers = [edge.node for edge in node.inputs if edge.node]
            if node.type in CONST_TYPES or (producers and not node.controls and fixed.issuperset(producers)):
                fixed.add(node.name)
        return fixed - {node.name for node in self._dump.order if node.type in END_TYPES}

    def total(self, what: str) -> Dim | None:
        """The sum of ``bytes`` or ``flops`` over all nodes; None if unknown or a long expression."""
        terms = Counter(getattr(cost, what) for cost in self.nodes.values())
        terms.pop(0, None)
        if None in terms or (len(terms) > _MOST_TERMS and any(not isinstance(term, int) for term in terms)):
            return None
        return sum((term * times for term, times in terms.items()), 0)

    @cached_property
    def peak(self) -> int | None:
        """Peak bytes of live intermediate results; None if sizes are missing."""
        dump, types = self._dump, self._dump.inference.types
        last: dict[str, int] = {}
        for node in reversed(dump.order):
            index = max([dump.position[node.name], last.get(node.name, 0)])
            for producer in node.producers:
                # A view keeps its input alive as long as it lives itself.
                until = index if facts(node.type).view else dump.position[node.name]
                last[producer] = max(last.get(producer, 0), until)
        ends: dict[int, int] = {}
        alive = most = 0
        for index, node in enumerate(dump.order):
            if not _is_free(node):
                sizes = [self._size(tensor) for tensor in types[node.name]]
                if any(not isinstance(size, int) for size in sizes):
                    return None
                allocated = sum(size for size in sizes if isinstance(size, int))
                alive += allocated
                end = max(last.get(node.name, index), index)
                ends[end] = ends.get(end, 0) + allocated
            most = max(most, alive)
            alive -= ends.pop(index, 0)
        return most

    def held(self, node_types: set[str]) -> Dim | None:
        """Total bytes of the results of nodes of these types."""
        chosen = [tensor for node in self._dump.order if node.type in node_types for tensor in self._types(node)]
        sizes = [self._size(tensor) for tensor in chosen]
        return _sum(sizes)

    def quantised(self) -> tuple[int, int]:
        """Count the computing nodes with quantised tensors, and all computing nodes; includes called graphs."""
        computing = [
            node
            for node in self._dump.order
            if not _is_free(node) and facts(node.type).flops and node.name not in self.fixed | self._dump.calls.keys()
        ]
        touching = [
            node
            for node in computing
            if any(t.dtype in QUANTISED for t in (*self._dump.inference.input_types(node), *self._types(node)))
        ]
        below = [costs.quantised() for costs in self.inner.values()]
        return len(touching) + sum(one for one, _ in below), len(computing) + sum(other for _, other in below)

    def _types(self, node: Node) -> tuple[TensorType, ...]:
        return self._dump.inference.types[node.name]

    def _node(self, node: Node) -> Cost:
        if node.name in self._dump.calls:
            return self._called(node)
        if _is_free(node) or node.name in self._dump.inference.values or node.name in self.fixed:
            return Cost(0, 0)
        tensors = (*self._dump.inference.input_types(node), *self._types(node))
        transposed = any(name in node.proto.attr and node.proto.attr[name].b for name in ("transpose_x1", "adj_x1"))
        key = (node.type, transposed, bool(read_placement(self._dump, node).origins), *map(id, tensors))
        if key not in self._known:
            moved = [self._size(tensor) for tensor in tensors]
            self._known[key] = Cost(_sum(moved), self._number(self._flops(node, transposed)))
        return self._known[key]

    def _called(self, node: Node) -> Cost:
        """The cost of called graphs: of branches the largest, of a loop one iteration."""
        calls = [(call.role, self.inner[call.graph.name]) for call in self._dump.calls[node.name]]
        branches = [costs for role, costs in calls if "branch" in role]
        totals = [
            (_max if branches else _sum)([costs.total(what) for costs in branches or [costs for _, costs in calls]])
            for what in ("bytes", "flops")
        ]
        return Cost(*totals)

    def _flops(self, node: Node, transposed: bool) -> Dim | None:
        if self._dump.kind == "fx":
            return None  # torch's operators are not counted
        flops = CONVOLUTION if self._is_fused_convolution(node) else facts(node.type).flops
        if flops == 0 or not self._types(node):
            return 0
        reads, result = self._dump.inference.input_types(node), self._types(node)[0]
        widest = max((t.shape for t in (*reads, result) if t.shape is not None), key=len, default=None)
        if result.shape is None or widest is None:
            return None
        if flops == CONTRACTION and reads and reads[0].shape:
            inner = reads[0].shape[-2 if transposed and len(reads[0].shape) > 1 else -1]
            packed = 8 if reads[0].dtype == "int32" and node.type.startswith("Quant") else 1
            return 2 * packed * math.prod(result.shape) * inner
        if flops == CONVOLUTION:
            return self._convolution(node, result)
        if flops == REDUCTION and reads and reads[0].shape is not None:
            return math.prod(reads[0].shape)
        return max(flops, 1) * math.prod(result.shape)

    def contracts(self, node: Node) -> bool:
        """Whether the node is a matrix product or convolution, which runs on the cube."""
        return facts(node.type).flops in (CONTRACTION, CONVOLUTION) or self._is_fused_convolution(node)

    def _is_fused_convolution(self, node: Node) -> bool:
        """Whether GE fused a convolution into a node named after another of its parts, such as ReadSelect."""
        if facts(node.type).flops == CONVOLUTION or not read_placement(self._dump, node).origins:
            return False
        reads = self._dump.inference.input_types(node)
        return len(reads) > 1 and any(read.layout.blocks in _FILTER_FORMATS for read in reads)

    def _convolution(self, node: Node, result: TensorType) -> Dim | None:
        """Operations of a convolution: two for each output element and weight of its channel."""
        fed = {edge.name: tensor for edge in node.inputs if (tensor := self._dump.inference.type_of(edge)) is not None}
        named = fed.get("filter") or fed.get("w") or (result if "BackpropFilter" in node.type else None)
        reads = list(fed.values())
        blocked = [read for read in reads if read.layout.blocks in _FILTER_FORMATS]
        weight = named or next(iter([*blocked, *reads[1:2]]), None)
        outer = fed.get("out_backprop") or (fed.get("x") if "Transpose" in node.type else None) or result
        if weight is None or not weight.shape or not outer.shape:
            return None
        axes = weight.layout.axes
        if "Depthwise" in node.type and {"H", "W"} <= set(axes) and len(axes) == len(weight.shape):
            behind = weight.shape[axes.index("H")] * weight.shape[axes.index("W")]
        else:
            channels = axes.index("N") if len(axes) == len(weight.shape) and "N" in axes else 0
            behind = math.prod(size for axis, size in enumerate(weight.shape) if axis != channels)
        return 2 * math.prod(outer.shape) * behind

    def _size(self, tensor: TensorType) -> Dim | None:
        # Types are shared between nodes, so this is computed once for each distinct type.
        if id(tensor) not in self._bytes:
            self._bytes[id(tensor)] = self._number(tensor_bytes(tensor))
        return self._bytes[id(tensor)]

    def _number(self, expression: Dim | None) -> Dim | None:
        if expression is None or isinstance(expression, int) or not self._sizes:
            return expression
        if expression not in self._numbers:
            import sympy

            value = expression.xreplace(self._sizes)
            self._numbers[expression] = int(sympy.ceiling(value)) if value.is_number else value
        return self._numbers[expression]


def _is_free(node: Node) -> bool:
    return node.type in _FREE or facts(node.type).view


def _max(sizes: Sequence[Dim | None]) -> Dim | None:
    """The largest size; None if any is unknown."""
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    if all(isinstance(size, int) for size in known):
        return max(known)
    import sympy

    return sympy.Max(*known)


def _sum(sizes: Sequence[Dim | None]) -> Dim | None:
    """The sum of sizes; None if any is unknown."""
    known = [size for size in sizes if size is not None]
    return sum(known, 0) if len(known) == len(sizes) else None


def _substitutions(sizes: Mapping[str, int]) -> dict[Any, Any]:
    """Sizes by symbol. sympy is imported where there are symbols: it takes as long as reading a small dump."""
    if not sizes:
        return {}
    import sympy

    return {sympy.Symbol(name, integer=True, positive=True): sympy.Integer(size) for name, size in sizes.items()}
