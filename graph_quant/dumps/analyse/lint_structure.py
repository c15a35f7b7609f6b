"""Lint rules about the structure of a graph: redundant, unreachable, specialised or rejected nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, Node
from .lint import Severity, lint_rule

if TYPE_CHECKING:
    from ..dump import Dump

_PACKING_NODES = 3
_UNKNOWN_SIZE, _UNKNOWN_RANK = -1, -2
_NEUTRAL = {"Mul": 1, "RealDiv": 1, "Div": 1, "Add": 0, "Sub": 0}


@lint_rule(
    "redundant-chain",
    Severity.WARNING,
    why="every node is a kernel launch or a shape computation that GE carries out on each call",
    fix="lower with this package's converters: import graph_quant, or run under graph-quant run",
    all_formats=True,
)
def find_redundant_chains(dump: Dump) -> Iterator[tuple[str, str]]:
    """Chains that fewer nodes could replace."""
    for pattern in dump.patterns:
        if pattern.kind == "pack int4" and len(pattern.members) > _PACKING_NODES:
            yield (
                pattern.head,
                (
                    f"{len(pattern.members)} nodes pack int4; "
                    "Const [0, …, -1, 8], Reshape and Bitcast do the same for any shape"
                ),
            )


@lint_rule(
    "needless-node",
    Severity.NOTE,
    why="TorchAir's converters leave nodes that change nothing; GE removes them when it compiles the graph",
    fix="nothing, unless the call is in your own code: then remove it",
)
def find_needless_nodes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Single nodes that change nothing, or that duplicate their producer."""
    for node in dump.order:
        if message := _describe_needless(dump, node):
            yield node.name, message


def _describe_needless(dump: Dump, node: Node) -> str | None:
    if not node.inputs or not node.inputs[0].node or node.name in dump.inference.values:
        return None
    producer = dump.nodes[node.inputs[0].node]
    types, sources = dump.inference.types[node.name], dump.inference.types[producer.name]
    if not types or node.inputs[0].output >= len(sources):
        return None
    source, result = sources[node.inputs[0].output], types[0]
    same = result.inferred and source.inferred and result == source
    if node.type == "Cast" and same:
        return f"casts {source.dtype} to {source.dtype}; nothing is needed"
    if node.type == "Reshape" and same:
        return f"reshapes to the shape it has, {result}; nothing is needed"
    if node.type == "Reshape" and producer.type == "Reshape" and len(dump.consumers[producer.name]) == 1:
        return f"follows {producer.name}, which nothing else reads; one Reshape does"
    if node.type in _NEUTRAL and len(node.inputs) == 2 and same:
        value = dump.inference.values.get(node.inputs[1].node)
        if value == (_NEUTRAL[node.type],) and dump.nodes[node.inputs[1].node].type in CONST_TYPES:
            return f"is {node.type} with the constant {value[0]:g}; nothing is needed"
    return _describe_undone(dump, node, producer)


def _describe_undone(dump: Dump, node: Node, producer: Node) -> str | None:
    """A Transpose that is the inverse of its producer."""
    if node.type != "Transpose" or producer.type != "Transpose" or len(node.inputs) < 2 or len(producer.inputs) < 2:
        return None
    first = dump.inference.values.get(producer.inputs[1].node)
    second = dump.inference.values.get(node.inputs[1].node)
    if not first or not second or len(first) != len(second):
        return None
    if all(isinstance(axis, int) and 0 <= axis < len(first) for axis in second) and [
        first[axis] for axis in second
    ] == list(range(len(first))):
        return f"undoes {producer.name}; neither is needed"
    return None


@lint_rule(
    "no-output",
    Severity.ERROR,
    why="a graph without a NetOutput computes nothing that anybody gets",
    fix="dump the whole graph; TorchAir always writes a NetOutput",
)
def check_output(dump: Dump) -> Iterator[tuple[str, str]]:
    """A graph without an output."""
    if dump.order and not any(node.type == OUTPUT_TYPE for node in dump.order):
        yield dump.order[-1].name, "the graph has no NetOutput, so nothing in it is an output"


@lint_rule(
    "cut-off",
    Severity.ERROR,
    why="the file ends before the graph does, so the rest of the graph is not checked",
    fix="dump the graph again, or copy the whole file; --ignore cut-off checks what there is",
    all_formats=True,
)
def check_truncation(dump: Dump) -> Iterator[tuple[str, str]]:
    """A truncated file."""
    if dump.is_cut_off:
        last = dump.order[-1].name if dump.order else ""
        yield last, f"the file ends inside a node: {len(dump.order)} were read and checked, no more"


@lint_rule(
    "unreachable",
    Severity.NOTE,
    why="no output depends on it, by data or by control; it costs compile time at best",
    fix="remove what computes it, if it is yours; TorchAir prunes most from the optimized graph, and GE the rest",
    all_formats=True,
)
def find_unreachable(dump: Dump) -> Iterator[tuple[str, str]]:
    """Nodes that nothing reads and that are not the output."""
    if not any(node.type == OUTPUT_TYPE for node in dump.order):
        return
    needed: set[str] = set()
    frontier = [node.name for node in dump.order if node.type == OUTPUT_TYPE]
    while frontier:
        name = frontier.pop()
        if name not in needed:
            needed.add(name)
            frontier.extend(dump.nodes[name].producers)
    for node in dump.order:
        if node.name not in needed and node.type not in INPUT_TYPES and not dump.consumers[node.name]:
            yield node.name, f"{node.type} whose result nothing needs"


@lint_rule(
    "impossible-size",
    Severity.ERROR,
    why="a size is at least 0; -1 states that it is not known, and -2 alone that the rank is not",
    fix="correct the desc: a dump that is edited or generated must state sizes as GE does",
    all_formats=True,
)
def find_impossible_sizes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Sizes that no tensor has, in descs of inputs or outputs."""
    for node in dump.order:
        for side, descs in (("input", node.proto.input_desc), ("output", node.proto.output_desc)):
            for index, desc in enumerate(descs):
                sizes = list(desc.shape.dim)
                if sizes != [_UNKNOWN_RANK] and any(size < _UNKNOWN_SIZE for size in sizes):
                    yield node.name, f"{desc.name or f'{side} {index}'} has the sizes {sizes}"


@lint_rule(
    "static-shape",
    Severity.WARNING,
    why="the input is declared dynamic, but the graph is specialised to one size: other sizes fail or recompile",
    fix="take the size from the tensor (x.size(0), or -1 in a reshape), or mark the dimension static",
)
def find_static_shapes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Dynamic sizes that a node specialises to a number."""
    for name, (size, node) in dump.inference.specialised.items():
        yield node, f"works only where {name} is {size}, though the inputs declare it dynamic"


@lint_rule(
    "refused-call",
    Severity.ERROR,
    why="the host's kernel, which follows the operator's documents, refuses these inputs; a device fails or traps",
    fix="correct the call as the message says",
)
def find_refused_calls(dump: Dump) -> Iterator[tuple[str, str]]:
    """Nodes whose kernel rejects its inputs."""
    for name in dump.inference.refused:
        yield name, dump.inference.failures.get(name, "refused")
