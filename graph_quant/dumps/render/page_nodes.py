"""The data of each node on the page, for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, Node, printable
from ..analyse.cost import Costs
from ..graph.node_text import format_constant, format_results, list_remarks
from ..graph.placement import read_placement
from .node_quantisation import describe_quantisation
from .timing import Timing
from .to_dot import node_role
from .to_json import dim_to_json
from .to_text import inlined_shapes

if TYPE_CHECKING:
    from ..dump import Dump

LONGEST = 2000


@dataclass
class PageNodes:
    """The data of the nodes of one graph, numbered from ``start``."""

    dump: Dump
    costs: Costs
    start: int
    timing: Timing | None = None

    def describe(self, node: Node) -> dict[str, Any]:
        """The data of one node, without empty fields."""
        dump, cost = self.dump, self.costs.nodes[node.name]
        facts = {
            "name": printable(node.name, LONGEST),
            "type": printable(node.type, LONGEST),
            "role": node_role(dump, node),
            "inputs": [*self._inputs(node), *self._waits(node)],
            "outputs": _outputs(dump, node),
            "attributes": dump.attributes(node),
            "remarks": [
                *list_remarks(dump, node),
                *([placed] if (placed := str(read_placement(dump, node)).strip()) else []),
            ],
            "source": _source(node),
            "bytes": dim_to_json(cost.bytes),
            "flops": dim_to_json(cost.flops),
            "quant": describe_quantisation(dump, node, packs=node.name in self._packing),
            "shape": self._shapes.get(node.name),
            "value": format_constant(node) if node.type in CONST_TYPES else None,
            "weight": printable(node.source.module, LONGEST) or None if node.type in OUTSIDE_TYPES else None,
            "time": self.timing.facts(dump, node) if self.timing else None,
        }
        return {key: value for key, value in facts.items() if value not in (None, [], {})}

    @cached_property
    def _packing(self) -> set[str]:
        return {name for pattern in self.dump.patterns if pattern.kind == "pack int4" for name in pattern.members}

    @cached_property
    def _shapes(self) -> dict[str, str]:
        """Nodes that only compute shapes, and the shape as text if it is shown at the inputs that read it."""
        dump = self.dump
        inside = {name for pattern in dump.patterns if pattern.kind == "size" for name in pattern.members}
        computed = {name for name in dump.inference.values if dump.nodes[name].type not in CONST_TYPES | OUTSIDE_TYPES}
        hidden = [
            name
            for name in inside | computed
            if not any(reader.type in END_TYPES for reader, _ in dump.consumers[name])
        ]
        return dict.fromkeys(hidden, "") | inlined_shapes(dump)

    def _inputs(self, node: Node) -> list[dict[str, Any]]:
        return [
            {
                "name": printable(edge.name, LONGEST),
                "from": self.start + self.dump.position[edge.node],
                "type": str(self.dump.inference.type_of(edge) or "?"),
            }
            for edge in node.inputs
            if edge.node
        ]

    def _waits(self, node: Node) -> list[dict[str, Any]]:
        numbers = [self.start + self.dump.position[name] for name in node.controls]
        return [{"name": "", "from": number, "type": "control", "control": True} for number in numbers]


def _outputs(dump: Dump, node: Node) -> list[list[str]]:
    """The name and type of each result."""
    types, descs = dump.inference.types[node.name], node.proto.output_desc
    if len(types) == 1:
        return [[printable(descs[0].name, LONGEST) if descs else "", format_results(dump, node)]]
    return [
        [printable(descs[index].name, LONGEST) if index < len(descs) else "", str(tensor)]
        for index, tensor in enumerate(types)
    ]


def _source(node: Node) -> list[list[str]]:
    source = node.source
    line = f"{source.line}{'' if source.certain else ' or an earlier one'}" if source.line else ""
    named = (
        ("weight" if node.type in OUTSIDE_TYPES else "module", source.module),
        ("FX node", source.fx),
        ("file", source.file),
        ("line", line),
        ("function", source.function),
    )
    return [[key, printable(value, LONGEST)] for key, value in named if value]
