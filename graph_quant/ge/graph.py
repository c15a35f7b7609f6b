"""A GE graph in memory: its nodes, edges, and the Python source of each node."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .dtypes import TO_DESC
from .errors import GeError

INPUT_TYPES = {"Data", "RefData"}
CONST_TYPES = {"Const", "Constant"}
OUTPUT_TYPE = "NetOutput"
# Nodes for tensors from outside the graph: inputs, variables, files, or results of another part of a graph that GE
# partitioned.
OUTSIDE_TYPES = INPUT_TYPES | {
    "Variable", "VariableV2", "PlaceHolder", "ConstPlaceHolder", "FileConstant", "AippData", "AnnData", "QueueData",
}  # fmt: skip
# The end of a graph, or of one part of it.
END_TYPES = {OUTPUT_TYPE, "End"}
# The attribute with the path of the module that a node comes from, and the two forms in which torch writes paths.
MODULE_PATH = "_module_path"
# The attribute with the Python line of a node: file, line and function.
SOURCE_LINE = "_source_line"
_SELF = re.compile(r"^[LG]\[['\"]\w+['\"]\](?:\.__self__)?")
_ITEM = re.compile(r"(?:\._(?:modules|parameters|buffers))?\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]")


# What is known while TorchAir lowers, but not stored in its graph, is kept in these Python attributes of the graph.
_SOURCES = "_graph_quant_sources"
_DEVICES = "_graph_quant_output_devices"
_LAYOUTS = "_graph_quant_layouts"


class Output(NamedTuple):
    """One output of a node."""

    node: str
    position: int


class Edge(NamedTuple):
    """A data input: its name on the consumer, and the producer's output; ``node`` is "" where it is not connected."""

    name: str
    node: str
    output: int

    @property
    def source(self) -> Output:
        """The output that is read."""
        return Output(self.node, self.output)


@dataclass(frozen=True)
class Source:
    """The FX node and Python line that a node comes from; a line is ``certain`` where the dump itself states it.

    ``module`` is the path of the module, as in ``named_modules``.
    """

    fx: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    certain: bool = True
    code: str = ""
    module: str = ""

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}{'' if self.certain else '?'}" if self.file else ""
        return " ".join(part for part in (self.fx, self.module, location) if part)

    def written_line(self) -> str:
        """File, line and function, as a dump states them."""
        return f"{self.file}\n{self.line}\n{self.function}"

    def sentence(self) -> str:
        """FX node and Python line for messages; empty where neither is known."""
        location = f'"{self.file}", line {self.line}, in {self.function}' if self.file else ""
        named = f"FX node {self.fx!r}" if self.fx else ""
        within = f"module {self.module}" if self.module else ""
        return ", ".join(part for part in (named, within, ": ".join(filter(None, (location, self.code)))) if part)


@dataclass(slots=True)
class Node:
    """One GE operator; ``proto`` is its OpDef."""

    name: str
    type: str
    proto: Any
    inputs: list[Edge]
    controls: list[str]
    source: Source = field(default_factory=Source)

    @property
    def producers(self) -> Iterator[str]:
        """The nodes that this one depends on by data or control edges."""
        yield from (edge.node for edge in self.inputs if edge.node)
        yield from self.controls

    @property
    def fed(self) -> dict[str, Output]:
        """The connected inputs, by name."""
        return {edge.name: edge.source for edge in self.inputs if edge.node}

    @property
    def is_size(self) -> bool:
        """Whether a Data node is a size or a list of sizes rather than a tensor.

        TorchAir describes a tensor input by ``Tensor(...)`` and a size by its symbol. Lists of
        sizes, and the list of RNG offsets, have no description.
        """
        desc = self.proto.output_desc[0]
        if desc.device_type == "NPU" or len(desc.shape.dim) > 1:
            return False
        if "_meta" not in desc.attr:
            return bool(desc.device_type == "CPU" and desc.dtype == TO_DESC["int64"])
        return not desc.attr["_meta"].s.startswith(b"Tensor")

    def attribute(self, name: str) -> Any:
        """An attribute as a Python value; None where the node does not carry it."""
        return decode_attribute(self.proto.attr[name]) if name in self.proto.attr else None

    def describe(self) -> str:
        """Node, FX node and Python line in one phrase, for messages."""
        return ", ".join(part for part in (f"GE node {self.name!r} ({self.type})", self.source.sentence()) if part)


def written_inputs(op: Any) -> dict[str, str]:
    """By their names, what an OpDef is fed and writes: GE gives such an input the name of an output."""
    fed = zip((desc.name for desc in op.input_desc), op.input, strict=False)
    outputs = {desc.name for desc in op.output_desc}
    in_place = op.type.startswith("Inplace")
    return {name: reference for name, reference in fed if name and reference and (in_place or name in outputs)}


def to_python(attribute: Any) -> Any:
    """The Python value of an AttrDef; bytes become text, messages their own text form."""
    kind = attribute.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(attribute, kind)
    if kind in ("s", "bt", "expression"):
        return value.decode("utf-8", "backslashreplace")
    if kind == "list":
        for field, items in value.ListFields():
            if field.name != "val_type":
                return [item.decode("utf-8", "backslashreplace") if isinstance(item, bytes) else item for item in items]
        return []
    if kind == "list_list_int":
        return [list(row.list_i) for row in value.list_list_i]
    if kind == "list_list_float":
        return [list(row.list_f) for row in value.list_list_f]
    return value


def decode_attribute(attribute: Any) -> Any:
    """As ``to_python``, and a tensor as a torch tensor; dtypes stay ``ge::DataType`` numbers."""
    if attribute.WhichOneof("value") != "t":
        return to_python(attribute)
    from .values import decode_tensor

    return decode_tensor(attribute.t)


def sources_of(graph: Any) -> dict[str, Source]:
    """The sources of the nodes of a graph in memory, by name."""
    noted: dict[str, Source] = vars(graph).setdefault(_SOURCES, {})
    return noted


def note_output_devices(graph: Any, types: list[str]) -> None:
    """Store the device on which each output of a graph in memory was traced."""
    vars(graph)[_DEVICES] = types


def output_devices_of(graph: Any) -> list[str]:
    """The device type of each output, as traced; empty where it was not stored."""
    noted: list[str] = vars(graph).get(_DEVICES, [])
    return noted


def layouts_of(graph: Any) -> dict[str, tuple[bool, ...]]:
    """For the products of a graph in memory, by name: which operands are column-major in eager mode."""
    noted: dict[str, tuple[bool, ...]] = vars(graph).setdefault(_LAYOUTS, {})
    return noted


def module_path(meta: Mapping[str, Any]) -> str:
    """The path of the innermost module on an FX node's stack; "" where it has none, or is the model's own."""
    stack = meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values() if isinstance(entry, tuple) and entry and isinstance(entry[0], str)]
    return normalise_path(paths[-1]) if paths else ""


def weight_path(source: str) -> str:
    """The path of the parameter or buffer that is an input of Dynamo's graph; "" for an argument of the model."""
    return normalise_path(source) if "._parameters[" in source or "._buffers[" in source else ""


def normalise_path(path: str) -> str:
    """Normalise Dynamo's paths, such as ``L['self'].layers[2].mlp``, to ``layers.2.mlp``."""
    bare = _ITEM.sub(lambda match: "." + next(part for part in match.groups() if part is not None), _SELF.sub("", path))
    return re.sub(r"\.+", ".", bare.replace("._modules.", ".")).strip(".")


def read_nodes(graph_def: Any, sources: Mapping[str, Source] | None = None) -> list[Node]:
    """The nodes of a GraphDef (or of TorchAir's GeGraph) in its order, unchecked."""
    return [_node(proto, sources or {}) for proto in graph_def.op]


def build_nodes(graph_def: Any, sources: Mapping[str, Source] | None = None) -> dict[str, Node]:
    """The nodes of ``graph_def`` by name, checked: names are unique and every input exists."""
    nodes: dict[str, Node] = {}
    for node in read_nodes(graph_def, sources):
        if not node.name or not node.type:
            raise GeError(f"a node has no {'type' if node.name else 'name'}: {node.name or node.type or 'both'}")
        if not (node.name + node.type).isprintable():
            raise GeError(f"a node has control characters in its name or type: {node.name}: {node.type}")
        if node.name in nodes:
            raise GeError(f"two nodes are named {node.name}")
        nodes[node.name] = node
    if not nodes:
        raise GeError("the graph has no nodes")
    for node in nodes.values():
        _check_inputs(node, nodes)
    return nodes


def _node(proto: Any, sources: Mapping[str, Source]) -> Node:
    edges: list[Edge] = []
    controls: list[str] = []
    descs = proto.input_desc
    for reference in proto.input:
        producer, _, index = reference.rpartition(":")
        if index == "-1" and producer:
            controls.append(producer)
            continue
        if reference and not (producer and index.isascii() and index.isdigit() and len(index) < 10):
            raise GeError(f"{proto.name}: the input {reference!r} is not of the form node:output")
        name = descs[len(edges)].name if len(edges) < len(descs) else f"input{len(edges)}"
        edges.append(Edge(name, producer, int(index or 0)))
    known, stated = sources.get(proto.name), _fx_source(proto)
    if known is not None and stated.module and not known.module:
        known = replace(known, module=stated.module)
    return Node(proto.name, proto.type, proto, edges, controls, known or stated)


def _fx_source(proto: Any) -> Source:
    path = _read_text(proto, MODULE_PATH)
    file, line, function = (*_read_text(proto, SOURCE_LINE).split("\n"), "", "", "")[:3]
    stated = Source(file=file, line=int(line), function=function) if line.isdecimal() and len(line) < 10 else Source()
    for desc in proto.output_desc:
        if "_fx_tensor_name" in desc.attr:
            name = desc.attr["_fx_tensor_name"].s.decode("utf-8", "backslashreplace")
            return replace(stated, fx=name.partition(".OUTPUT.")[0].partition("-")[0], module=path)
    return replace(stated, module=path)


def _read_text(proto: Any, name: str) -> str:
    return proto.attr[name].s.decode("utf-8", "backslashreplace") if name in proto.attr else ""


def _check_inputs(node: Node, nodes: dict[str, Node]) -> None:
    for edge in node.inputs:
        if not edge.node:
            continue
        producer = nodes.get(edge.node)
        if producer is None:
            raise GeError(f"{node.name}: its input {edge.name} comes from {edge.node}, which the dump does not hold")
        if edge.output >= max(len(producer.proto.output_desc), 1):
            count = len(producer.proto.output_desc)
            raise GeError(
                f"{node.name}: its input {edge.name} is output {edge.output} of {edge.node}, which has {count}"
            )
    for control in node.controls:
        if control not in nodes:
            raise GeError(f"{node.name}: it waits for {control}, which the dump does not hold")


def sort_topologically(nodes: dict[str, Node]) -> list[Node]:
    """The nodes in topological order, stable with respect to the order of the dump."""
    position = {name: number for number, name in enumerate(nodes)}
    consumers: dict[str, list[str]] = {name: [] for name in nodes}
    waiting: dict[str, int] = {}
    for node in nodes.values():
        producers = set(node.producers)
        waiting[node.name] = len(producers)
        for producer in producers:
            consumers[producer].append(node.name)
    names = list(nodes)
    ready = [position[name] for name, count in waiting.items() if count == 0]
    order: list[Node] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(nodes[name])
        for consumer in consumers[name]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                heapq.heappush(ready, position[consumer])
    if len(order) < len(nodes):
        stuck = next(name for name, count in waiting.items() if count)
        raise GeError(f"the graph has a cycle, through or before {stuck}")
    return order
