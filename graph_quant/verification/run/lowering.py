"""The GE nodes that each FX node is lowered to, recorded while TorchAir lowers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ge import Output
from ...passes.hook import collect_replacements, resolve_replacement
from ..report.report import GeName

_NOTES = "_graph_quant_lowering"


@dataclass
class LoweredNodes:
    """By the name of an FX node: the GE nodes it was lowered to, and its results, by position."""

    nodes: dict[str, list[Any]] = field(default_factory=dict)
    results: dict[str, dict[int, Any]] = field(default_factory=dict)

    def ge_names(self, fx_node: str) -> tuple[GeName, ...]:
        """The GE nodes of an FX node."""
        return tuple(GeName(op.name, op.type) for op in self.nodes.get(fx_node, ()))

    def outputs(self) -> Iterator[tuple[str, int, Output]]:
        """FX node, position of the result, and the output in the GE graph that carries it."""
        for fx_node, results in self.results.items():
            for position, tensor in results.items():
                yield fx_node, position, Output(tensor.node.name, tensor.index)


def get_lowering(concrete_graph: Any) -> LoweredNodes:
    """What was recorded for a GeConcreteGraph."""
    lowered: LoweredNodes = vars(concrete_graph).get(_NOTES) or LoweredNodes()
    return lowered


def make_output_resolver(ge_graph: Any) -> Callable[[Output], Output]:
    """A function that maps an output to the one that passes replaced it by."""
    replaced = collect_replacements(ge_graph)

    def resolve(output: Output) -> Output:
        node, _, index = resolve_replacement(replaced, f"{output.node}:{output.position}").rpartition(":")
        return Output(node, int(index))

    return resolve


def record_lowering(parse_node: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap TorchAir's ``GeConcreteGraph.parse_node`` to record what each FX node is lowered to."""

    def parse(self: Any, target: Any, args: Any, kwargs: Any, meta_outputs: Any) -> Any:
        before = len(self.graph.op)
        outputs = parse_node(self, target, args, kwargs, meta_outputs)
        node = getattr(self._converter_ctx, "node", None)
        if node is not None:
            ge_nodes = list(self.graph.op[before:])
            notes = vars(self).setdefault(_NOTES, LoweredNodes())
            notes.nodes[node.name] = ge_nodes
            notes.results[node.name] = _own_results(outputs, {op.name for op in ge_nodes})
        return outputs

    return parse


def _own_results(outputs: Any, names: set[str]) -> dict[int, Any]:
    """The results that GE nodes in ``names`` compute. A view that TorchAir defers has the tensor of its input."""
    several = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    if isinstance(outputs, Mapping):
        return {}
    return {
        position: tensor
        for position, tensor in enumerate(several)
        if hasattr(tensor, "node") and tensor.node.name in names
    }
