"""What the page knows of each node: a mapping for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, Node, printable
from ..analyse.cost import Costs
from ..graph.node_text import constant_text, remarks, result_text
from ..graph.placement import placement
from .node_quantisation import quantisation
from .timing import Timing
from .to_dot import role
from .to_json import plain_dim
from .to_text import served_sizes

if TYPE_CHECKING:
    from ..dump import Dump

LONGEST = 2000


@dataclass
class NodeFacts:
    """The facts of the nodes of one graph, which are numbered from ``start``."""

    dump: Dump
    costs: Costs
    start: int
    timing: Timing | None = None

    def of(self, node: Node) -> dict[str, Any]:
        """One node; what does not apply to it is left out."""
        dump, cost = self.dump, self.costs.nodes[node.name]
        facts = {
            "name": printable(node.name, LONGEST),
            "type": printable(node.type, LONGEST),
            "role": role(dump, node),
            "inputs": [*self._inputs(node), *self._waits(node)],
            "outputs": _outputs(dump, node),
            "attributes": dump.attributes(node),
            "remarks": [*remarks(dump, node), *([placed] if (placed := str(placement(dump, node)).strip()) else [])],
            "source": _source(node),
            "bytes": plain_dim(cost.bytes),
            "flops": plain_dim(cost.flops),
            "quant": quantisation(dump, node, packs=node.name in self._packing),
            "shape": self._shapes.get(node.name),
            "value": constant_text(node) if node.type in CONST_TYPES else None,
            "weight": printable(node.source.module, LONGEST) or None if node.type in OUTSIDE_TYPES else None,
            "time": self.timing.facts(dump, node) if self.timing else None,
        }
        return {key: value for key, value in facts.items() if value not in (None, [], {})}

    @cached_property
    def _packing(self) -> set[str]:
        return {name for idiom in self.dump.idioms if idiom.kind == "pack int4" for name in idiom.members}

    @cached_property
    def _shapes(self) -> dict[str, str]:
        """Nodes that only compute shapes, with what they compute where it is told in the edges that they serve."""
        dump = self.dump
        inside = {name for idiom in dump.idioms if idiom.kind == "size" for name in idiom.members}
        computed = {name for name in dump.inference.values if dump.nodes[name].type not in CONST_TYPES | OUTSIDE_TYPES}
        hidden = [
            name
            for name in inside | computed
            if not any(reader.type in END_TYPES for reader, _ in dump.consumers[name])
        ]
        return dict.fromkeys(hidden, "") | served_sizes(dump)

    def _inputs(self, node: Node) -> list[dict[str, Any]]:
        return [
            {
                "name": printable(edge.name, LONGEST),
                "from": self.start + self.dump.position[edge.node],
                "type": str(self.dump.inference.of(edge) or "?"),
            }
            for edge in node.inputs
            if edge.node
        ]

    def _waits(self, node: Node) -> list[dict[str, Any]]:
        places = [self.start + self.dump.position[name] for name in node.controls]
        return [{"name": "", "from": place, "type": "control", "control": True} for place in places]


def _outputs(dump: Dump, node: Node) -> list[list[str]]:
    """The name and type of each result."""
    types, descs = dump.inference.types[node.name], node.proto.output_desc
    if len(types) == 1:
        return [[printable(descs[0].name, LONGEST) if descs else "", result_text(dump, node)]]
    return [
        [printable(descs[index].name, LONGEST) if index < len(descs) else "", str(found)]
        for index, found in enumerate(types)
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
