"""Applies fusions to an FX graph, and reports what was fused and what looked like a pattern but was not."""

from __future__ import annotations

import functools
import importlib
import operator
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import torch
from torch._inductor.pattern_matcher import CallFunction, is_match
from torch.fx import Graph, GraphModule, Node

from ..ge import module_path
from ..refusals import Refusal
from . import NAMES
from .record import Fusion, NotFusedError
from .rewriter import SPLITS, UNSAFE_VIEWS, Rewriter

_FILE_AND_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_LAYER = re.compile(r"[^\d]*\.\d+(?=\.|$)")
FUSIONS: dict[str, Fusion] = {name: importlib.import_module(f".{name}", __package__).FUSION for name in NAMES}


@dataclass(frozen=True)
class FusionFinding:
    """A subgraph that matched a pattern.

    Attributes:
        fusion: The name of the fusion.
        module: The path of the module that the subgraph belongs to, or "".
        line: ``file:line`` that its last operator comes from, or "".
        reason: Why it was not fused; "" where it was.
    """

    fusion: str
    module: str
    line: str
    reason: str = ""

    def __str__(self) -> str:
        where = f"{self.module} ({self.line})" if self.module and self.line else self.module or self.line or "the graph"
        return f"{where}: {self.fusion} not fused: {self.reason}" if self.reason else f"{where}: {self.fusion}"


@dataclass
class FusionReport:
    """What fusions did to a graph.

    Attributes:
        fused: The subgraphs that were replaced.
        not_fused: The subgraphs that look like a pattern and stay, with the reasons.
        calls_before: The number of calls of operators before.
        calls_after: The number of calls of operators after.
        layers: The same two numbers for each layer, by its module path.
    """

    fused: list[FusionFinding] = field(default_factory=list)
    not_fused: list[FusionFinding] = field(default_factory=list)
    calls_before: int = 0
    calls_after: int = 0
    layers: dict[str, tuple[int, int]] = field(default_factory=dict)


def fuse_graph(gm: GraphModule, names: Sequence[str]) -> FusionReport:
    """Apply fusions to the ATen graph of a function, in place.

    Args:
        gm: The graph module that a compiler gets from AOTAutograd.
        names: Names of fusions.

    Returns:
        What was fused, and what was not and why.
    """
    report, before = FusionReport(calls_before=_count_calls(gm.graph)), _count_by_layer(gm.graph)
    for name in FUSIONS:
        if name in names:
            apply_fusion(gm.graph, FUSIONS[name], report)
    gm.graph.lint()
    gm.recompile()
    report.calls_after, after = _count_calls(gm.graph), _count_by_layer(gm.graph)
    report.layers = {layer: (before[layer], after[layer]) for layer in before}
    return report


def apply_fusion(graph: Graph, fusion: Fusion, report: FusionReport) -> list[tuple[FusionFinding, str, str]]:
    """Apply one fusion, and return the names of replaced nodes and of those that replace them."""
    if fusion.operator is not None and not hasattr(torch.ops.npu, fusion.operator):
        return []
    patterns, replaced = _patterns(fusion.name), list[tuple[FusionFinding, str, str]]()
    if not any(node.target in patterns for node in graph.nodes):
        return replaced
    rewriter, written = Rewriter(graph), _written_memory(graph)
    for node in list(graph.nodes):
        if node._erased or not node.users:
            continue
        for pattern in patterns.get(node.target, ()):
            match = pattern.match(node)
            if not is_match(match):
                continue
            module, line = str(module_path(node.meta)), _line(node)
            try:
                _check_memory(match.kwargs.values(), written)
                changed = fusion.rewrite(rewriter, node, match.kwargs)
            except (NotFusedError, Refusal) as error:
                report.not_fused.append(FusionFinding(fusion.name, module, line, str(error)))
            else:
                if changed:
                    report.fused.append(FusionFinding(fusion.name, module, line))
                    replaced += [(report.fused[-1], old, new) for old, new in rewriter.replaced]
                    _erase_unread(graph, node)
            rewriter.replaced.clear()
            break
    if replaced:
        graph.eliminate_dead_code()
    return replaced


def _erase_unread(graph: Graph, node: Node) -> None:
    """Erase a node that nothing reads: dead-code elimination keeps operators that may take random samples."""
    for reader in list(node.users):
        if not reader.users and reader.target is operator.getitem:
            graph.erase_node(reader)
    if not node.users:
        graph.erase_node(node)


@functools.cache
def _patterns(name: str) -> dict[Any, list[CallFunction]]:
    """The patterns of a fusion by the operator at their end."""
    by_target: dict[Any, list[CallFunction]] = {}
    for pattern in FUSIONS[name].patterns():
        for target in pattern.fns:  # type: ignore[attr-defined]
            by_target.setdefault(target, []).append(pattern)  # type: ignore[arg-type]
    return by_target


def _written_memory(graph: Graph) -> set[Node]:
    """The nodes whose memory an operator of the graph writes, except in its last copies, which nothing follows."""
    written: set[Node] = set()
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    while nodes and nodes[-1].target is torch.ops.aten.copy_.default:
        nodes.pop()
    for node in nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        for index, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
                written.update(_base(tensor) for tensor in _nodes([value]))
    return written


def _check_memory(leaves: Iterable[Any], written: set[Node]) -> None:
    for node in _nodes(leaves):
        if _base(node) in written:
            raise NotFusedError(f"the graph writes to the memory of {node.name}")


def _nodes(values: Iterable[Any]) -> list[Node]:
    nodes: list[Node] = []
    for value in values:
        torch.fx.node.map_arg(value, nodes.append)
    return nodes


def _base(node: Node) -> Node:
    """The node whose memory ``node`` is a view of."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        source = node.args[0]
        is_part = node.target is operator.getitem and source.target in SPLITS
        if not is_part and node.target not in (*SPLITS, *UNSAFE_VIEWS) and not getattr(node.target, "is_view", False):
            return node
        node = source
    return node


def _count_calls(graph: Graph) -> int:
    return sum(node.op == "call_function" for node in graph.nodes)


def _count_by_layer(graph: Graph) -> Counter[str]:
    """The calls of operators by layer: the module path up to its first number."""
    paths = (str(module_path(node.meta) or "") for node in graph.nodes if node.op == "call_function")
    matches = (_LAYER.match(path) for path in paths)
    return Counter(match.group() for match in matches if match is not None)


def _line(node: Node) -> str:
    """The innermost Python line of a node, as ``file:line``."""
    frames = _FILE_AND_LINE.findall(node.stack_trace or "")
    return f"{PurePath(frames[-1][0]).name}:{frames[-1][1]}" if frames else ""
