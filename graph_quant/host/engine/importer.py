"""Imports a GE graph as a torch.fx.GraphModule that calls one kernel for each GE node.

Every FX node made from a GE node has it in ``node.meta["ge"]``. Placeholders are in the order of the Data nodes'
indices. Sizes are passed as numbers: where a kernel takes a tensor and the producer returns a size, or the reverse, a
conversion is inserted. ``make_callable`` runs such a module, and names the node that fails.
"""

from __future__ import annotations

import builtins
import keyword
import operator
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import fx

from ... import chip
from ...ge import (
    CONST_TYPES,
    INPUT_TYPES,
    OUTPUT_TYPE,
    GeError,
    Node,
    Output,
    Sizes,
    Source,
    find_unsupported,
    read_nodes,
    sizes_from_input,
    to_sizes,
    to_tensor,
)
from ..kernels import (
    KERNELS,
    LONGEST_SIZES,
    Input,
    InputState,
    Kernel,
    choose_kernel,
    grouped_matmul_with_layout,
    is_constant_folded,
    matmul_with_layout,
)
from . import inputs
from .engines import INDUCTOR, Run, compile_with_inductor
from .errors import GraphError, UnsupportedGraphError, node_error

# Names that mean something else in the code that FX generates.
_RESERVED = frozenset((*keyword.kwlist, *dir(builtins), "self", "torch"))
# Nodes without outputs, which run for their side effects.
_SIDE_EFFECTS = frozenset({"HcomSend", "AttentionToFFN", "FFNToAttention"})
_STRUCTURAL = frozenset((*INPUT_TYPES, *CONST_TYPES, OUTPUT_TYPE, "ConstPlaceHolder"))


def missing_kernels(graph: Any, sources: Mapping[str, Source] | None = None) -> list[Node]:
    """Return the nodes that the outputs depend on and that have no kernel for the chip in use."""
    return _missing(_execution_order(_name(graph), _read(graph, sources)))


def import_graph(
    graph: Any, sources: Mapping[str, Source] | None = None, layouts: Mapping[str, tuple[bool, ...]] | None = None
) -> fx.GraphModule:
    """Return the GraphModule of a GraphDef. Raises UnsupportedGraphError naming every node without a kernel.

    ``layouts`` are those of ``layouts_of``.
    """
    nodes = _read(graph, sources)
    ordered = _execution_order(_name(graph), nodes)
    missing = _missing(ordered)
    if missing:
        on_chip = "" if chip.has(chip.A2_AND_A3) else chip.current().name
        raise UnsupportedGraphError(_name(graph), missing, on_chip)
    return _Importer(_name(graph), nodes, layouts or {}).build(ordered)


def make_callable(module: fx.GraphModule, engine: str) -> Run:
    """Return the graph as a function of its inputs; errors name the node that raised them."""
    eager = _naming_nodes(module)
    return compile_with_inductor(module, eager) if engine == INDUCTOR else eager


def _naming_nodes(module: fx.GraphModule) -> Run:
    forward = module.forward
    code = module.forward.__func__.__code__  # type: ignore[attr-defined]

    def run(*inputs: Any) -> Sequence[torch.Tensor]:
        try:
            return forward(*inputs)  # type: ignore[no-any-return]
        except Exception as error:
            node = _failing_node(module, code, error.__traceback__)
            if node is None:
                raise
            raise node_error(node, error) from error

    return run


def _failing_node(module: fx.GraphModule, code: Any, trace: TracebackType | None) -> Node | None:
    """Return the GE node whose line of the generated code raised the error."""
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    lines = module._lineno_map
    if trace is None or lines is None:
        return None
    line = trace.tb_lineno - module._prologue_start
    index = next((lines[number] for number in range(line, 0, -1) if lines.get(number) is not None), None)
    if index is None:
        return None
    return list(module.graph.nodes)[index].meta.get("ge")


def _execution_order(graph: str, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that the outputs depend on, topologically sorted, in file order where dependencies allow."""
    by_name = {node.name: node for node in nodes}
    if len(by_name) < len(nodes):
        twice = next(node.name for node in nodes if by_name[node.name] is not node)
        raise GraphError(f"{graph}: two nodes are named {twice!r}")
    needed = _needed(graph, nodes, by_name)
    ordered: list[Node] = []
    state: dict[str, bool] = {}
    for root in nodes:
        stack = [(root.name, False)] if root.name in needed else []
        while stack:
            name, expanded = stack.pop()
            if expanded:
                state[name] = True
                ordered.append(by_name[name])
                continue
            if name in state:
                if not state[name]:
                    raise GraphError(f"{graph}: {by_name[name].describe()} depends on itself")
                continue
            state[name] = False
            stack.append((name, True))
            waiting = [source for source in by_name[name].producers if not state.get(source)]
            stack.extend((source, False) for source in reversed(waiting))
    return ordered


def _needed(graph: str, nodes: Sequence[Node], by_name: dict[str, Node]) -> set[str]:
    frontier = [node.name for node in nodes if node.type == OUTPUT_TYPE]
    if not frontier:
        raise GraphError(f"{graph}: it has no {OUTPUT_TYPE} node")
    if len(frontier) > 1:
        raise GraphError(
            f"{graph}: it has {len(frontier)} {OUTPUT_TYPE} nodes, {', '.join(frontier[:4])}; one is allowed"
        )
    frontier += [node.name for node in nodes if node.type in _SIDE_EFFECTS]
    needed = set(frontier)
    while frontier:
        node = by_name[frontier.pop()]
        for source in node.producers:
            if source not in by_name:
                raise GraphError(
                    f"{graph}: {node.describe()} takes an input from {source!r}, which is not in the graph"
                )
            if source not in needed:
                needed.add(source)
                frontier.append(source)
    return needed


def _read(graph: Any, sources: Mapping[str, Source] | None) -> list[Node]:
    try:
        return read_nodes(graph, sources)
    except GeError as error:
        raise GraphError(f"{_name(graph)}: {error}") from None


def _name(graph: Any) -> str:
    return graph.name or "GE graph"


def _missing(nodes: Sequence[Node]) -> list[Node]:
    computing = (node for node in nodes if node.type not in _STRUCTURAL)
    return [node for node in computing if node.type not in KERNELS or not chip.has(KERNELS[node.type].chips)]


class _Importer:
    def __init__(self, name: str, nodes: Sequence[Node], layouts: Mapping[str, tuple[bool, ...]]) -> None:
        self.name = name
        self.nodes = nodes
        self.layouts = layouts
        self.graph = fx.Graph()
        self.attributes: dict[str, Any] = {}
        self.identifiers: dict[str, str] = {}
        self.taken: set[str] = set()
        self.constants: dict[Output, torch.Tensor] = {}
        # The FX values of a node's output, as a tensor and as sizes. Either may be converted to the other.
        self.tensors: dict[Output, fx.Node] = {}
        self.sizes: dict[Output, fx.Node | Sizes] = {}

    def build(self, ordered: Sequence[Node]) -> fx.GraphModule:
        self._placeholders()
        output: Node | None = None
        for node in ordered:
            if node.type == OUTPUT_TYPE:
                output = node
            elif node.type in CONST_TYPES:
                self._constant(node)
            elif node.type == "ConstPlaceHolder":
                self.constants[Output(node.name, 0)] = inputs.memory_at(node)
            elif node.type not in INPUT_TYPES:
                self._call(node)
        assert output is not None
        results = self.graph.output(tuple(self._tensor(edge.source) for edge in output.inputs if edge.node))
        results.meta["ge"] = output
        module = fx.GraphModule(self.attributes, self.graph, class_name="HostGraph")
        module.eval()
        return module

    def _placeholders(self) -> None:
        data = sorted((node for node in self.nodes if node.type in INPUT_TYPES), key=_index)
        for node in data:
            placeholder = self.graph.placeholder(self._identifier(node.name))
            placeholder.meta["ge"] = node
            output = Output(node.name, 0)
            if node.is_size:
                host = self.graph.call_function(sizes_from_input, (placeholder, inputs.dtype(node)))
                host.meta["ge"] = node
                self.sizes[output] = host
            else:
                self.tensors[output] = placeholder

    def _constant(self, node: Node) -> None:
        value = _attribute(node, "value")
        if not isinstance(value, torch.Tensor):
            raise GraphError(f"{self.name}: {node.describe()} has no value")
        self._add_constant(Output(node.name, 0), value)

    def _add_constant(self, output: Output, value: torch.Tensor) -> None:
        """Record a constant; a small one may also be used as sizes."""
        self.constants[output] = value
        if value.numel() <= LONGEST_SIZES and not value.dtype.is_complex:
            self.sizes[output] = to_sizes(value)

    def _call(self, node: Node) -> None:
        fed = {name: self._fed(output) for name, output in node.fed.items()}
        kernel = choose_kernel(node.type, fed)
        assert kernel is not None
        if ignored := find_unsupported(node, kernel):
            raise GraphError(f"{node.describe()}: the host does not compute {', '.join(ignored)}")
        args = [self._argument(node, declared) for declared in kernel.inputs]
        stated = {parameter: _attribute(node, name) for name, parameter in kernel.attributes}
        kwargs = {parameter: value for parameter, value in stated.items() if value is not None}
        name, function = self._identifier(node.name), kernel.function
        if node.name in self.layouts:
            function = grouped_matmul_with_layout if node.type == "GroupedMatmul" else matmul_with_layout
            kwargs["columns"] = self.layouts[node.name]
        call = self.graph.create_node("call_function", function, tuple(args), kwargs, name)
        call.meta["ge"] = node
        call.meta["kernel"] = kernel
        outputs = self.sizes if kernel.returns_sizes else self.tensors
        if not kernel.returns_many:
            outputs[Output(node.name, 0)] = call
        else:
            for index in range(len(node.proto.output_desc)):
                item = self.graph.call_function(operator.getitem, (call, index))
                item.meta["ge"] = node
                outputs[Output(node.name, index)] = item
        if is_constant_folded(node.type, fed):
            self._fold(node, kernel, kwargs)

    def _fed(self, output: Output) -> InputState:
        constant = self.constants.get(output)
        return InputState(output in self.sizes, None if constant is None else constant.dim())

    def _fold(self, node: Node, kernel: Kernel, attributes: Mapping[str, Any]) -> None:
        """Compute a node of constant inputs now, for consumers that need its value as a size."""

        def known(output: Output, is_size: bool) -> Any:
            return self.sizes[output] if is_size else self.constants[output]

        args = [self._argument(node, declared, known) for declared in kernel.inputs]
        try:
            result = kernel.function(*args, **attributes)
        except Exception as error:
            raise node_error(node, error) from error
        for index, value in enumerate(result if kernel.returns_many else [result]):
            self._add_constant(Output(node.name, index), value)

    def _argument(self, node: Node, declared: Input, fetch: Callable[[Output, bool], Any] | None = None) -> Any:
        fetch = fetch or self._fetch
        if declared.is_dynamic:
            return [fetch(output, declared.is_size) for output in _numbered(node, declared.name)]
        output = node.fed.get(declared.name)
        if output is not None:
            return fetch(output, declared.is_size)
        if declared.is_optional:
            return None
        raise GraphError(f"{self.name}: {node.describe()} lacks its input {declared.name!r}")

    def _fetch(self, output: Output, is_size: bool) -> Any:
        return self._sizes(output) if is_size else self._tensor(output)

    def _tensor(self, output: Output) -> fx.Node:
        if output not in self.tensors:
            if output in self.constants:
                attribute = self._identifier(output.node)
                self.attributes[attribute] = self.constants[output]
                value = self.graph.get_attr(attribute)
            else:
                value = self.graph.call_function(to_tensor, (self._known(self.sizes, output),))
            self.tensors[output] = value
        return self.tensors[output]

    def _sizes(self, output: Output) -> fx.Node | Sizes:
        if output not in self.sizes:
            self.sizes[output] = self.graph.call_function(to_sizes, (self._tensor(output),))
        return self.sizes[output]

    def _identifier(self, name: str) -> str:
        """Return the unique Python name of a GE node in generated code."""
        if name not in self.identifiers:
            plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
            if not plain.isidentifier() or plain in _RESERVED:
                plain = f"n_{plain}"
            while plain in self.taken:
                plain += "_"
            self.taken.add(plain)
            self.identifiers[name] = plain
        return self.identifiers[name]

    def _known(self, table: Mapping[Output, Any], output: Output) -> Any:
        if output not in table:
            raise GraphError(f"{self.name}: node {output.node!r} has no output {output.position}")
        return table[output]


def _attribute(node: Node, name: str) -> Any:
    try:
        return node.attribute(name)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(f"GE node {node.name!r} ({node.type}): {error}") from None


def _index(node: Node) -> int:
    index = _attribute(node, "index")
    if not isinstance(index, int):
        raise GraphError(f"GE node {node.name!r} ({node.type}): it has no index")
    return index


def _numbered(node: Node, name: str) -> list[Output]:
    numbered = [(key[len(name) :], output) for key, output in node.fed.items() if key.startswith(name)]
    return [output for _, output in sorted((int(number), output) for number, output in numbered if number.isdigit())]
