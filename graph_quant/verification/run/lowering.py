"""Which GE nodes an FX node became, noted while TorchAir lowers it."""

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
    """By the name of an FX node: the GE nodes made for it, and its results that they yield, by their position."""

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


def lowering_of(concrete_graph: Any) -> LoweredNodes:
    """What was noted for a GeConcreteGraph."""
    noted: LoweredNodes = vars(concrete_graph).get(_NOTES) or LoweredNodes()
    return noted


def standing_outputs(ge_graph: Any) -> Callable[[Output], Output]:
    """Tells which output of a graph has the value of another that a pass took out."""
    replaced = collect_replacements(ge_graph)

    def stands(output: Output) -> Output:
        node, _, place = resolve_replacement(replaced, f"{output.node}:{output.index}").rpartition(":")
        return Output(node, int(place))

    return stands


def noting(parse_node: Callable[..., Any]) -> Callable[..., Any]:
    """TorchAir's ``GeConcreteGraph.parse_node`` that notes what each FX node becomes."""

    def parse(self: Any, target: Any, args: Any, kwargs: Any, meta_outputs: Any) -> Any:
        before = len(self.graph.op)
        outputs = parse_node(self, target, args, kwargs, meta_outputs)
        node = getattr(self._converter_ctx, "node", None)
        if node is not None:
            made = list(self.graph.op[before:])
            notes = vars(self).setdefault(_NOTES, LoweredNodes())
            notes.nodes[node.name] = made
            notes.results[node.name] = _made_here(outputs, {op.name for op in made})
        return outputs

    return parse


def _made_here(outputs: Any, made: set[str]) -> dict[int, Any]:
    """The results that nodes made for this FX node yield. A view that TorchAir puts off has its input's tensor."""
    several = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    if isinstance(outputs, Mapping):
        return {}
    return {
        position: tensor
        for position, tensor in enumerate(several)
        if hasattr(tensor, "node") and tensor.node.name in made
    }
