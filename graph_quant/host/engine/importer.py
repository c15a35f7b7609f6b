"""From a GE graph to a torch.fx.GraphModule that calls one kernel for each GE node.

Every FX node made from a GE node has it in ``node.meta["ge"]``. Placeholders stand in the order of the Data nodes'
indices. Sizes travel as numbers: where a kernel wants a tensor and gets a size, or the other way round, a
conversion is put between them.
"""

from __future__ import annotations

import builtins
import keyword
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ...ge import sizes
from ..kernels import KERNELS, Input, Kernel
from ..kernels.choice import LONGEST_SIZES, Fed, choose, is_folded
from . import inputs
from .errors import GraphError, NodeError, UnsupportedGraphError
from .nodes import Edge, GeNode, Origin, read_nodes
from .order import DATA_TYPES, OUTPUT, execution_order

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
        self.constants: dict[Edge, torch.Tensor] = {}
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
                self.constants[Edge(node.name, 0)] = inputs.memory_at(node)
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
                host = self.graph.call_function(sizes.given_sizes, (placeholder, inputs.dtype(node)))
                host.meta["ge"] = node
                self.sizes[edge] = host
            else:
                self.tensors[edge] = placeholder

    def _constant(self, node: GeNode) -> None:
        value = node.attributes.get("value")
        if not isinstance(value, torch.Tensor):
            raise GraphError(f"{self.name}: {node.describe()} has no value")
        self._know(Edge(node.name, 0), value)

    def _know(self, edge: Edge, value: torch.Tensor) -> None:
        """Note a constant; a small one may be sizes."""
        self.constants[edge] = value
        if value.numel() <= LONGEST_SIZES and not value.dtype.is_complex:
            self.sizes[edge] = sizes.to_sizes(value)

    def _call(self, node: GeNode) -> None:
        fed = {name: self._fed(edge) for name, edge in node.inputs.items()}
        kernel = choose(node.type, fed)
        assert kernel is not None
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
        else:
            for index in range(node.output_count):
                item = self.graph.call_function(operator.getitem, (call, index))
                item.meta["ge"] = node
                made[Edge(node.name, index)] = item
        if is_folded(node.type, fed):
            self._fold(node, kernel, kwargs)

    def _fed(self, edge: Edge) -> Fed:
        constant = self.constants.get(edge)
        return Fed(edge in self.sizes, None if constant is None else constant.dim())

    def _fold(self, node: GeNode, kernel: Kernel, attributes: Mapping[str, Any]) -> None:
        """Compute what a node makes of constants now, for readers that need it as a size."""

        def known(edge: Edge, is_size: bool) -> Any:
            return self.sizes[edge] if is_size else self.constants[edge]

        args = [self._argument(node, declared, known) for declared in kernel.inputs]
        try:
            result = kernel.function(*args, **attributes)
        except Exception as error:
            raise NodeError(node, error) from error
        for index, value in enumerate(result if kernel.returns_many else [result]):
            self._know(Edge(node.name, index), value)

    def _argument(self, node: GeNode, declared: Input, fetch: Callable[[Edge, bool], Any] | None = None) -> Any:
        fetch = fetch or self._fetch
        if declared.is_dynamic:
            return [fetch(edge, declared.is_size) for edge in _dynamic_edges(node, declared.name)]
        edge = node.inputs.get(declared.name)
        if edge is not None:
            return fetch(edge, declared.is_size)
        if declared.is_optional:
            return None
        raise GraphError(f"{self.name}: {node.describe()} lacks its input {declared.name!r}")

    def _fetch(self, edge: Edge, is_size: bool) -> Any:
        return self._sizes(edge) if is_size else self._tensor(edge)

    def _tensor(self, edge: Edge) -> fx.Node:
        if edge not in self.tensors:
            if edge in self.constants:
                attribute = self._identifier(edge.node)
                self.attributes[attribute] = self.constants[edge]
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
