"""Formats a graph as JSON, with the same contents as the text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, Node
from ..analyse.cost import Costs
from ..graph.node_text import format_constant
from ..graph.placement import read_placement
from ..graph.shapes import Dim, format_dim

if TYPE_CHECKING:
    from ..dump import Dump


def to_json(dump: Dump, costs: Costs) -> str:
    """Format a dump as JSON.

    Args:
        dump: The dump.
        costs: Its costs.

    Returns:
        JSON text with ``nodes``, ``graphs``, ``symbols`` and ``summary``; symbolic sizes are strings.

    Examples:
        >>> json.loads(to_json(dump, Costs(dump)))["summary"]
    """
    return json.dumps(graph_facts(dump, costs), indent=1, ensure_ascii=True) + "\n"


def graph_facts(dump: Dump, costs: Costs) -> dict[str, Any]:
    """The contents of the JSON as a dictionary."""
    touching, computing = costs.quantised()
    return {
        **_nodes_and_patterns(dump, costs),
        **_subgraph_facts(dump, costs),
        **({"missing": dump.missing} if dump.missing else {}),
        "symbols": dump.inference.symbols,
        "tied_symbols": dump.inference.tied,
        "summary": {
            "nodes": len(dump.order),
            "quantised_nodes": touching,
            "computing_nodes": computing,
            "bytes": dim_to_json(costs.total("bytes")),
            "flops": dim_to_json(costs.total("flops")),
            "peak_bytes": dim_to_json(costs.peak),
        },
    }


def _nodes_and_patterns(dump: Dump, costs: Costs) -> dict[str, Any]:
    return {
        "nodes": [node_facts(dump, node, costs) for node in dump.order],
        "idioms": [
            {"kind": i.kind, "label": i.label, "head": i.head, "members": list(i.members)} for i in dump.patterns
        ],
    }


def _subgraph_facts(dump: Dump, costs: Costs) -> dict[str, Any]:
    """The called graphs, each once."""
    graphs = [graph for graph in dump.graphs() if graph is not dump]
    inner = [{"name": graph.name, **_nodes_and_patterns(graph, costs.of(graph) or Costs(graph))} for graph in graphs]
    return {"graphs": inner} if inner else {}


def node_facts(dump: Dump, node: Node, costs: Costs) -> dict[str, Any]:
    """The data of one node."""
    types = dump.inference.types[node.name]
    cost = costs.nodes[node.name]
    facts: dict[str, Any] = {
        "name": node.name,
        "type": node.type,
        "inputs": [{"name": e.name, "node": e.node, "output": e.output} for e in node.inputs if e.node],
        "outputs": [
            {
                "name": node.proto.output_desc[index].name if index < len(node.proto.output_desc) else "",
                "dtype": tensor.dtype,
                "shape": None if tensor.shape is None else [dim_to_json(size) for size in tensor.shape],
                "inferred": tensor.inferred,
                **({"layout": str(tensor.layout)} if str(tensor.layout) else {}),
            }
            for index, tensor in enumerate(types)
        ],
        "attributes": dump.attributes(node),
        "bytes": dim_to_json(cost.bytes),
        "flops": dim_to_json(cost.flops),
    }
    if calls := dump.calls.get(node.name):
        facts["calls"] = {call.role: call.graph.name for call in calls}
    placed = {name: value for name, value in vars(read_placement(dump, node)).items() if value not in (None, "", ())}
    if placed:
        facts["placement"] = placed
    if node.type in CONST_TYPES:
        facts["value"] = format_constant(node)
    if node.controls:
        facts["after"] = list(node.controls)
    if node.source.fx:
        facts["fx"] = node.source.fx
    if node.source.module:
        facts["module"] = node.source.module
    if node.source.file:
        facts["source"] = {"file": node.source.file, "line": node.source.line, "certain": node.source.certain}
    if node.name in dump.inference.disagreements:
        facts["desc_disagrees"] = dump.inference.disagreements[node.name]
    if node.name in dump.inference.failures:
        facts["not_inferred"] = dump.inference.failures[node.name]
    return facts


def dim_to_json(size: Dim | None) -> int | str | None:
    """Convert a size to an int or a string."""
    return size if size is None or isinstance(size, int) else format_dim(size)
