"""From a GE graph to a torch.fx.GraphModule that calls one kernel for each GE node.

Every FX node made from a GE node has it in ``node.meta["ge"]``. Placeholders stand in the order of the Data nodes'
indices. Sizes travel as Python numbers: where a kernel wants a tensor and gets a size, or the other way round, a
conversion is put between them.
"""

from __future__ import annotations

import builtins
import keyword
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ...ge import sizes
from ..kernels import CONSTANT_KERNELS, KERNELS, SIZE_KERNELS, Input, Kernel
from . import inputs
from .errors import GraphError, UnsupportedGraphError
from .nodes import Edge, GeNode, Origin, read_nodes
from .order import DATA_TYPES, OUTPUT, execution_order

# Longer constants are data, never shapes.
LONGEST_SHAPE = 64
# Names that mean something else in the code that FX generates.
_RESERVED = frozenset((*keyword.kwlist, *dir(builtins), "self", "torch"))
_STRUCTURAL = frozenset((*DATA_TYPES, OUTPUT, "Const", "Constant", "ConstPlaceHolder"))


def missing_kernels(graph: Any, origins: Mapping[str, Origin] | None = None) -> list[GeNode]:
    """The nodes that the outputs need and that have no kernel."""
    return _missing(execution_order(_name(graph), read_nodes(graph, origins)))


def import_graph(graph: Any, origins: Mapping[str, Origin] | None = None) -> fx.GraphModule:
    """The GraphModule of a GraphDef. Raises UnsupportedGraphError naming every node without a kernel."""
    nodes = read_nodes(graph, origins)
    ordered = execution_order(_name(graph), nodes)
    missing = _missing(ordered)
    if missing:
        raise UnsupportedGraphError(_name(graph), missing)
    return _Importer(_name(graph), nodes).build(ordered)


def _name(graph: Any) -> str:
    return graph.name or "GE graph"


def _missing(nodes: Sequence[GeNode]) -> list[GeNode]:
    return [node for node in nodes if node.type not in KERNELS and node.type not in _STRUCTURAL]


class _Importer:
    def __init__(self, name: str, nodes: Sequence[GeNode]) -> None:
        self.name = name
        self.nodes = nodes
        self.graph = fx.Graph()
        self.attributes: dict[str, Any] = {}
        self.identifiers: dict[str, str] = {}
        self.taken: set[str] = set()
        self.constants: dict[str, torch.Tensor] = {}
        # What stands for an output of a node: a tensor, and sizes. Either may be made from the other.
        self.tensors: dict[Edge, fx.Node] = {}
        self.sizes: dict[Edge, fx.Node | sizes.Sizes] = {}

    def build(self, ordered: Sequence[GeNode]) -> fx.GraphModule:
        self._placeholders()
        output: GeNode | None = None
        for node in ordered:
            if node.type == OUTPUT:
                output = node
            elif node.type in ("Const", "Constant"):
                self._constant(node)
            elif node.type == "ConstPlaceHolder":
                self.constants[node.name] = inputs.memory_at(node)
            elif node.type not in DATA_TYPES:
                self._call(node)
        assert output is not None
        results = self.graph.output(tuple(self._tensor(edge) for edge in output.inputs.values()))
        results.meta["ge"] = output
        module = fx.GraphModule(self.attributes, self.graph, class_name="HostGraph")
        module.eval()
        return module

    def _placeholders(self) -> None:
        data = sorted((node for node in self.nodes if node.type in DATA_TYPES), key=lambda n: n.attributes["index"])
        for node in data:
            placeholder = self.graph.placeholder(self._identifier(node.name))
            placeholder.meta["ge"] = node
            edge = Edge(node.name, 0)
            if inputs.is_size(node):
                size = self.graph.call_function(sizes.given_sizes, (placeholder, inputs.dtype(node)))
                size.meta["ge"] = node
                self.sizes[edge] = size
            else:
                self.tensors[edge] = placeholder

    def _constant(self, node: GeNode) -> None:
        value: torch.Tensor = node.attributes["value"]
        self.constants[node.name] = value
        if value.numel() <= LONGEST_SHAPE and not value.dtype.is_complex:
            items = value.reshape(-1).tolist()
            self.sizes[Edge(node.name, 0)] = sizes.Sizes(tuple(items), tuple(value.shape), value.dtype)

    def _call(self, node: GeNode) -> None:
        kernel = self._choose(node)
        args = [self._argument(node, declared) for declared in kernel.inputs]
        kwargs = {
            parameter: node.attributes[name]
            for name, parameter in kernel.attributes
            if node.attributes.get(name) is not None
        }
        name = self._identifier(node.name)
        call = self.graph.create_node("call_function", kernel.function, tuple(args), kwargs, name)
        call.meta["ge"] = node
        call.meta["kernel"] = kernel
        made = self.sizes if kernel.returns_sizes else self.tensors
        if not kernel.returns_many:
            made[Edge(node.name, 0)] = call
            return
        for index in range(node.output_count):
            item = self.graph.call_function(operator.getitem, (call, index))
            item.meta["ge"] = node
            made[Edge(node.name, index)] = item

    def _choose(self, node: GeNode) -> Kernel:
        """The kernel on sizes where all inputs are sizes and not all of them float constants."""
        on_sizes = SIZE_KERNELS.get(node.type)
        edges = node.inputs.values()
        if on_sizes is None or not edges or any(edge not in self.sizes for edge in edges):
            return self._with_constants(node)
        computed = any(edge.node not in self.constants for edge in edges)
        whole = all(not self.constants[e.node].is_floating_point() for e in edges if e.node in self.constants)
        return on_sizes if computed or whole else self._with_constants(node)

    def _with_constants(self, node: GeNode) -> Kernel:
        """The kernel for scalar constants where there is one and they are, or the usual one."""
        special = CONSTANT_KERNELS.get(node.type)
        if special is None:
            return KERNELS[node.type]
        edges = [node.inputs[declared.name] for declared in special.inputs if declared.is_size]
        scalars = all(edge.node in self.constants and self.constants[edge.node].dim() == 0 for edge in edges)
        return special if scalars else KERNELS[node.type]

    def _argument(self, node: GeNode, declared: Input) -> Any:
        fetch = self._sizes if declared.is_size else self._tensor
        if declared.is_dynamic:
            return [fetch(edge) for edge in _dynamic_edges(node, declared.name)]
        edge = node.inputs.get(declared.name)
        if edge is not None:
            return fetch(edge)
        if declared.is_optional:
            return None
        raise GraphError(f"{self.name}: {node.describe()} lacks its input {declared.name!r}")

    def _tensor(self, edge: Edge) -> fx.Node:
        if edge not in self.tensors:
            if edge.node in self.constants:
                attribute = self._identifier(edge.node)
                self.attributes[attribute] = self.constants[edge.node]
                made = self.graph.get_attr(attribute)
            else:
                made = self.graph.call_function(sizes.to_tensor, (self._known(self.sizes, edge),))
            self.tensors[edge] = made
        return self.tensors[edge]

    def _sizes(self, edge: Edge) -> fx.Node | sizes.Sizes:
        if edge not in self.sizes:
            self.sizes[edge] = self.graph.call_function(sizes.to_sizes, (self._tensor(edge),))
        return self.sizes[edge]

    def _identifier(self, name: str) -> str:
        """The Python name that stands for a GE node in generated code; no two nodes share one."""
        if name not in self.identifiers:
            plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
            if not plain.isidentifier() or plain in _RESERVED:
                plain = f"n_{plain}"
            while plain in self.taken:
                plain += "_"
            self.taken.add(plain)
            self.identifiers[name] = plain
        return self.identifiers[name]

    def _known(self, table: Mapping[Edge, Any], edge: Edge) -> Any:
        if edge not in table:
            raise GraphError(f"{self.name}: node {edge.node!r} has no output {edge.output}")
        return table[edge]


def _dynamic_edges(node: GeNode, name: str) -> list[Edge]:
    numbered = [(key[len(name) :], edge) for key, edge in node.inputs.items() if key.startswith(name)]
    return [edge for number, edge in sorted(((int(n), e) for n, e in numbered if n.isdigit()))]
