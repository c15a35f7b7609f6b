"""Normalises the graphs of any format: the root first, inputs and outputs named, every producer present."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ...ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, registration
from ..errors import DumpError

_UNNAMED = re.compile(r"__(?P<side>input|output)(?P<index>\d+)$")
_NAMES = {"input": ("_input_name_key", "_input_name_idx_key"), "output": ("_output_name_key", "_output_name_idx_key")}
_MOST_OUTPUTS = 4096


def order_graphs(graphs: list[Any]) -> tuple[list[Any], list[str]]:
    """Put the root first; also return the names of other graphs that nothing calls."""
    names = [graph.name for graph in graphs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DumpError(f"two graphs are named {twice}")
    called = {name for graph in graphs for op in graph.op for name in op.subgraph_name}
    free = [graph for graph in graphs if graph.name not in called]
    if not free:
        raise DumpError("every graph in it is called by another, so none is the root")
    root = free[0]
    return [root, *(graph for graph in graphs if graph is not root)], [graph.name for graph in free[1:]]


def normalise_graph(graph: Any) -> list[str]:
    """Name inputs and outputs, and add placeholders for producers outside the graph; return their names."""
    for op in graph.op:
        for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
            _name_descs(op, side, descs)
    return _add_missing_outputs(graph)


def _name_descs(op: Any, side: str, descs: Any) -> None:
    """Name the inputs or outputs of a node; GE stores the names in attributes, sorted."""
    named = _read_names(op, side)
    declared = _declared_outputs(op, len(descs)) if side == "output" and not named else []
    for index, desc in enumerate(descs):
        if desc.name:
            continue
        name = named.get(index) or (declared[index] if declared else "")
        unnamed = _UNNAMED.match(name)
        desc.name = f"{unnamed['side']}{unnamed['index']}" if unnamed else name or f"{side}{index}"


def _read_names(op: Any, side: str) -> dict[int, str]:
    for key in _NAMES[side]:
        other = key.replace("_key", "_value")
        if key in op.attr and other in op.attr:
            words = [word.decode("utf-8", "backslashreplace") for word in op.attr[key].list.s]
            return dict(zip(op.attr[other].list.i, words, strict=False))
    return {}


def _declared_outputs(op: Any, count: int) -> list[str]:
    declared = registration(op.type)
    names = [output.name for output in declared.outputs if output.kind != "dynamic"] if declared else []
    return names if len(names) == count else []


def _add_missing_outputs(graph: Any) -> list[str]:
    """Add outputs and producers that are read but absent: a dump without descs, or a part of a graph."""
    by_name = {op.name: op for op in graph.op}
    outside: dict[str, Any] = {}
    for name, index in list(_read_references(graph.op)):
        if name not in by_name:
            by_name[name] = outside[name] = graph.op.add(name=name, type="PlaceHolder")
        descs = by_name[name].output_desc
        while len(descs) <= index < _MOST_OUTPUTS:
            descs.add(name=f"output{len(descs)}")
    return list(outside)


def _read_references(ops: Iterable[Any]) -> Iterator[tuple[str, int]]:
    for op in ops:
        for reference in op.input:
            name, _, index = reference.rpartition(":")
            if name and (index == "-1" or (index.isascii() and index.isdigit() and len(index) < 10)):
                yield name, int(index)


def list_missing(graphs: list[Any]) -> list[str]:
    """List what the graphs do not contain."""
    ops = [op for graph in graphs for op in graph.op]
    missing = []
    empty = sum(op.type in CONST_TYPES and _lacks_bytes(op) for op in ops)
    if empty:
        missing.append(f"the bytes of {empty} constant{'s' * (empty != 1)}")
    unnumbered = sum(op.type in INPUT_TYPES and "index" not in op.attr for op in ops)
    if unnumbered:
        missing.append(f"the index of {unnumbered} input{'s' * (unnumbered != 1)}")
    root = graphs[0]
    if not any(op.type == OUTPUT_TYPE for op in root.op):
        ends = sum(op.type == "End" for op in root.op)
        missing.append(f"what follows {ends} End node{'s' * (ends != 1)}" if ends else "the output of the graph")
    if ops and not any(desc.dtype for op in ops for desc in op.output_desc):
        missing.append("dtypes and shapes")
    return missing


def _lacks_bytes(op: Any) -> bool:
    if "value" not in op.attr:
        return True
    tensor = op.attr["value"].t
    return not tensor.data and 0 not in tensor.desc.shape.dim
