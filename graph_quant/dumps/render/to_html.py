"""A graph, or the difference of two, as one page that needs no network."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ...destination import ALL
from ...ge.errors import printable
from ...ge.graph import CONST_TYPES, OUTSIDE_TYPES, Node
from ...pages import render
from ..analyse.cost import Costs
from ..analyse.diff import Difference
from ..graph.called import parameters
from ..graph.placement import placement
from ..graph.text import constant_text, remarks, result_text
from .lines import summary_lines
from .script import script
from .to_dot import role
from .to_json import plain_dim

if TYPE_CHECKING:
    from ..dump import Dump

_LONGEST = 2000
_EXAMPLE_PARAMETER = 70507248869376  # from the document of npu_trans_quant_param
_MOST_PARAMETERS = 16
_DESTINATIONS = {destination.name: destination for destination in ALL}


def to_html(dump: Dump, costs: Costs, title: str = "GE graph", size_option: str = "sizes") -> str:
    """The page of one graph."""
    summary = [["", line] for line in summary_lines(dump, costs, size_option)]
    return _page(_graph(dump, costs) | {"title": title, "summary": summary})


def diff_page(difference: Difference, title: str = "GE graph, compared") -> str:
    """The page of a difference: the new graph with what is added and changed marked, what is gone listed."""
    facts = _graph(difference.new, Costs(difference.new))
    place = difference.new.position
    for node in difference.added:
        facts["nodes"][place[node.name]]["mark"] = "added"
    for (_, after), changes in difference.changed.items():
        marked = facts["nodes"][place[after]]
        marked["mark"] = "changed"
        marked["changes"] = [f"{c.kind} {printable(c.what)}: {c.before} → {c.after}" for c in changes]
    kinds = {"- ": "removed", "+ ": "added", "~ ": "changed"}
    lines = [[kinds.get(line[:2], ""), line] for line in difference.lines()]
    return _page(facts | {"title": title, "summary": lines[-1:] + lines[:-1]})


def _page(facts: dict[str, Any]) -> str:
    files = resources.files(__package__)
    # In a script element only "<" could end the text early.
    data = json.dumps(facts, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    style = (files / "page.css").read_text(encoding="utf-8")
    return render(__package__, "page.html", style=Markup(style), data=Markup(data), script=Markup(script()))


def _graph(dump: Dump, costs: Costs) -> dict[str, Any]:
    """The nodes of the graph and of all it calls, which stand behind their callers and fold into them."""
    nodes: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    first: dict[int, int] = {}
    for graph in dump.graphs():
        first[id(graph)] = start = len(nodes)
        nodes += [_node(graph, node, costs.of(graph) or Costs(graph), start) for node in graph.order]
        groups += [
            {
                "label": idiom.label,
                "head": start + graph.position[idiom.head],
                "members": [start + graph.position[name] for name in idiom.members],
            }
            for idiom in graph.idioms
        ]
    for graph in dump.graphs():
        for name, calls in graph.calls.items():
            caller = first[id(graph)] + graph.position[name]
            for call in calls:
                _enter(nodes, caller, first[id(call.graph)], graph.nodes[name], call.graph)
    return {"nodes": nodes, "groups": groups}


def _enter(nodes: list[dict[str, Any]], caller: int, start: int, node: Node, graph: Dump) -> None:
    """Draw a called graph from the node that calls it: its inputs come from there."""
    fed = parameters(graph, node)
    for inner in graph.order:
        own = nodes[start + graph.position[inner.name]]
        own["graph"] = printable(graph.name, _LONGEST)
        if inner.type in OUTSIDE_TYPES and not own["inputs"]:
            name = node.inputs[fed[inner.name]].name if inner.name in fed else ""
            own["inputs"].append({"name": printable(name, _LONGEST), "from": caller, "type": "called", "control": True})


def _node(dump: Dump, node: Node, costs: Costs, start: int = 0) -> dict[str, Any]:
    types, cost = dump.inference.types, costs.nodes[node.name]
    inputs = [
        {
            "name": printable(edge.name, _LONGEST),
            "from": start + dump.position[edge.node],
            "type": str(dump.inference.of(edge) or "?"),
        }
        for edge in node.inputs
        if edge.node
    ]
    waits = [
        {"name": "", "from": start + dump.position[name], "type": "control", "control": True} for name in node.controls
    ]
    source = [["FX node", node.source.fx], ["file", node.source.file], ["function", node.source.function]]
    if node.source.line:
        source.insert(2, ["line", f"{node.source.line}{'' if node.source.certain else ' or an earlier one'}"])
    names = [desc.name for desc in node.proto.output_desc]
    return {
        "name": printable(node.name, _LONGEST),
        "type": printable(node.type, _LONGEST),
        "role": role(dump, node),
        "size": node.name in dump.inference.values,
        "inputs": inputs + waits,
        "outputs": [
            {
                "name": printable(names[index], _LONGEST) if index < len(names) else "",
                "type": _result(dump, node, index),
            }
            for index in range(len(types[node.name]))
        ],
        "attributes": dump.attributes(node),
        "remarks": [*remarks(dump, node), *([placed] if (placed := str(placement(dump, node)).strip()) else [])],
        "source": [[key, printable(value, _LONGEST)] for key, value in source if value],
        "bytes": plain_dim(cost.bytes),
        "flops": plain_dim(cost.flops),
        "quant": _quantisation(dump, node),
        **({"value": constant_text(node)} if node.type in CONST_TYPES else {}),
    }


def _result(dump: Dump, node: Node, index: int) -> str:
    types = dump.inference.types[node.name]
    return result_text(dump, node) if len(types) == 1 else str(types[index])


def _quantisation(dump: Dump, node: Node) -> dict[str, Any] | None:
    types = dump.inference.types[node.name]
    facts: dict[str, Any] = {}
    found = next((t for t in types if t.dtype in _DESTINATIONS and _DESTINATIONS[t.dtype].high), None)
    quantises = "Quant" in node.type and node.type != "TransQuantParamV2"
    if found is not None and (quantises or found.dtype == "int4"):
        destination = _DESTINATIONS[found.dtype]
        packing = f"{destination.packing} to an {destination.storage}" if destination.is_packed else "one element each"
        facts |= {"destination": destination.name, "packing": packing.replace("torch.", "")}
        facts["range"] = f"{destination.low} … {destination.high}"
    packs = any(node.name in idiom.members for idiom in dump.idioms if idiom.kind == "pack int4")
    if packs or any(t.dtype == "int4" for t in types):
        facts["packed"] = True
    if parameters := _parameters(dump, node):
        facts["parameters"] = parameters
    return facts or None


def _parameters(dump: Dump, node: Node) -> dict[str, Any] | None:
    """The 64-bit parameters that a node makes, or that a constant feeds to a matmul, decoded."""
    is_fed = node.type in CONST_TYPES and any(
        reader.type.startswith("QuantBatchMatmul") and reader.inputs[position].name == "scale"
        for reader, position in dump.consumers[node.name]
    )
    values = dump.inference.values.get(node.name, ()) if is_fed else _encoded(dump, node)
    if node.type != "TransQuantParamV2" and not (
        is_fed and dump.inference.types[node.name][0].dtype in ("int64", "uint64")
    ):
        return None
    import torch

    from ...quant_params import decode

    whole = [value - (1 << 64) if value >= 1 << 63 else value for value in values[:_MOST_PARAMETERS]]
    scales, offsets = decode(torch.tensor(whole, dtype=torch.int64))
    shown = [
        f"{value}: scale {scale:.7g}, offset {offset}"
        for value, scale, offset in zip(whole, scales.tolist(), offsets.tolist(), strict=True)
    ]
    return {"example": str(whole[0] if whole else _EXAMPLE_PARAMETER), "values": shown}


def _encoded(dump: Dump, node: Node) -> tuple[int, ...]:
    """What TransQuantParamV2 makes of constants."""
    import torch

    from ...quant_params import encode

    fed = {edge.name: dump.inference.values.get(edge.node) for edge in node.inputs if edge.node}
    scale, offset = fed.get("scale"), fed.get("offset")
    if node.type != "TransQuantParamV2" or not scale or ("offset" in fed and not offset):
        return ()
    mode = node.proto.attr["round_mode"].i if "round_mode" in node.proto.attr else 0
    made = encode(torch.tensor(scale), torch.tensor(offset) if offset else None, mode)
    return tuple(made.tolist())
