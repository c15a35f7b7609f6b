"""Looks at intermediate results while a graph runs.

On the host the engine runs the graph node by node, and what it computes is kept. Everything else that runs graphs (a
real NPU, or the host's Inductor) has them only as outputs: a second graph is compiled that returns them too.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, fx
from torch.utils._mode_utils import no_dispatch

from ...ge import Output, Sizes, to_tensor
from ...host.alias import as_cpu
from ...host.engine import EAGER, HostGraph, NodeError, current
from ...start.preload import HOST, chosen
from ..compare.operators import is_operator, is_view, writes
from .lowering import lowering_of, standing_outputs

# By FX node, the results that were seen by their position.
Observed = dict[str, dict[int, Tensor]]
Runner = Callable[..., Any]


def on_host(tensor: Tensor) -> Tensor:
    """A CPU tensor with the same values: over the same memory where that is the host's."""
    if tensor.is_cpu:
        return tensor.detach()
    return as_cpu(tensor.detach()) if chosen() is HOST else tensor.detach().cpu()


def is_recordable(concrete_graph: Any) -> bool:
    """Whether the engine will run this graph node by node."""
    return isinstance(concrete_graph.graph._executor, HostGraph) and current() == EAGER


class EngineRun:
    """Runs a TorchAir graph on the engine and keeps the results that FX nodes have."""

    def __init__(self, concrete_graph: Any) -> None:
        self._graph = concrete_graph
        self._executor = _RecordingGraph(concrete_graph.graph._executor.name)
        concrete_graph.graph._executor = self._executor

    def __call__(self, *args: Any) -> tuple[Any, Observed]:
        # A pass may have let another node give a result.
        stands = standing_outputs(self._graph.graph)
        wanted = [(fx_node, place, stands(output)) for fx_node, place, output in lowering_of(self._graph).outputs()]
        self._executor.record({output for _, _, output in wanted})
        try:
            outputs = self._graph(*args)
        finally:
            recorded = self._executor.stop()
        observed: Observed = {}
        for fx_node, position, output in wanted:
            if output in recorded:
                observed.setdefault(fx_node, {})[position] = recorded[output]
        return outputs, observed


class _RecordingGraph(HostGraph):
    """The engine's executor, with a switch to keep results."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._wanted: set[Output] | None = None
        self._recorded: dict[Output, Tensor] = {}

    def record(self, wanted: set[Output]) -> None:
        self._wanted, self._recorded = wanted, {}

    def stop(self) -> dict[Output, Tensor]:
        self._wanted = None
        return self._recorded

    def compile(self) -> None:
        super().compile()
        plain, module = self._run, self.module
        assert plain is not None
        assert module is not None

        def run(*inputs: Any) -> Any:
            if self._wanted is None:
                return plain(*inputs)
            return _Keeper(module, self._wanted, self._recorded).run(*inputs)

        self._run = run


class _Keeper(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, wanted: set[Output], recorded: dict[Output, Tensor]) -> None:
        super().__init__(module)
        self._wanted = wanted
        self._recorded = recorded

    def run_node(self, n: fx.Node) -> Any:
        node = n.meta.get("ge")
        try:
            result = super().run_node(n)
        except Exception as error:
            if node is None:
                raise
            raise NodeError(node, error) from error
        if node is not None and "kernel" in n.meta:
            several = result if isinstance(result, list) or type(result) is tuple else [result]
            for index, value in enumerate(several):
                output = Output(node.name, index)
                if output in self._wanted:
                    # A later node may write into the same memory.
                    self._recorded[output] = to_tensor(value) if isinstance(value, Sizes) else value.detach().clone()
        return result


class ExtraOutputs:
    """Runs a second graph whose outputs are the intermediate results; ``compile_graph`` makes it from an FX graph."""

    def __init__(
        self, module: fx.GraphModule, plain: Runner, compile_graph: Callable[[fx.GraphModule], Runner]
    ) -> None:
        with no_dispatch():
            extended = copy.deepcopy(module)
        output = extended.graph.output_node()
        original = tuple(output.args[0])  # type: ignore[arg-type]
        seen = [node for node in extended.graph.nodes if _can_be_output(node)]
        output.args = ((*original, *seen),)
        extended.recompile()
        self._first = len(original)
        self._seen = [_place(node) for node in seen]
        self._plain = plain
        self._extended = compile_graph(extended)

    def __call__(self, *args: Any) -> tuple[Any, Observed]:
        # The inputs of the second graph are copies: both graphs may write to theirs.
        copies = [argument.clone() if isinstance(argument, Tensor) else argument for argument in args]
        extra: Sequence[Tensor] = self._extended(*copies)[self._first :]
        observed: Observed = {}
        for (fx_node, position), value in zip(self._seen, extra, strict=True):
            observed.setdefault(fx_node, {})[position] = on_host(value).clone()
        return self._plain(*args), observed


def _can_be_output(node: fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.meta.get("val"), Tensor):
        return False
    return node.target is operator.getitem or (is_operator(node) and not writes(node) and not is_view(node))


def _place(node: fx.Node) -> tuple[str, int]:
    """Whose result it is, and its position there."""
    if node.target is operator.getitem:
        source, position = node.args
        assert isinstance(source, fx.Node)
        assert isinstance(position, int)
        return source.name, position
    return node.name, 0
