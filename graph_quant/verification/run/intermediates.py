"""Gets the intermediate results of a graph that runs.

On the host, the eager engine runs a graph node by node, and the results are recorded. A real NPU and the host's
Inductor only return outputs: for them a second graph is compiled that returns the intermediate results as well.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, fx
from torch.utils._mode_utils import no_dispatch

from ...ge import Output
from ...host.alias import as_cpu
from ...host.engine import EAGER, HostGraph, RecordingInterpreter, current
from ...start.preload import HOST, chosen
from ..compare.operators import is_operator, is_view, writes
from .lowering import get_lowering, make_output_resolver

# By FX node: its observed results, by position.
Observed = dict[str, dict[int, Tensor]]
Runner = Callable[..., Any]


def to_host(tensor: Tensor) -> Tensor:
    """A CPU tensor with the same values; it shares the memory of a tensor on the host device."""
    if tensor.is_cpu:
        return tensor.detach()
    return as_cpu(tensor.detach()) if chosen() is HOST else tensor.detach().cpu()


def runs_node_by_node(concrete_graph: Any) -> bool:
    """Whether the eager engine runs this graph."""
    return isinstance(concrete_graph.graph._executor, HostGraph) and current() == EAGER


class EngineRun:
    """Runs a TorchAir graph on the engine and records the results of its FX nodes."""

    def __init__(self, concrete_graph: Any) -> None:
        self._graph = concrete_graph
        self._executor = _SwitchableRecorder(concrete_graph.graph._executor.name)
        concrete_graph.graph._executor = self._executor

    def __call__(self, *args: Any) -> tuple[Any, Observed]:
        # A pass may have replaced an output.
        resolve = make_output_resolver(self._graph.graph)
        wanted = [(fx_node, index, resolve(output)) for fx_node, index, output in get_lowering(self._graph).outputs()]
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


class _SwitchableRecorder(HostGraph):
    """The engine's executor, with a switch to record results."""

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
            recorder = RecordingInterpreter(module, self._wanted)
            self._recorded = recorder.recorded
            return recorder.run(*inputs)

        self._run = run


class ExtraOutputs:
    """Runs a second graph that also returns the intermediate results; ``compile_graph`` compiles it."""

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
        self._seen = [_find_source(node) for node in seen]
        self._plain = plain
        self._extended = compile_graph(extended)

    def __call__(self, *args: Any) -> tuple[Any, Observed]:
        # The inputs of the second graph are copies: both graphs may write to theirs.
        copies = [argument.clone() if isinstance(argument, Tensor) else argument for argument in args]
        extra: Sequence[Tensor] = self._extended(*copies)[self._first :]
        observed: Observed = {}
        for (fx_node, position), value in zip(self._seen, extra, strict=True):
            observed.setdefault(fx_node, {})[position] = to_host(value).clone()
        return self._plain(*args), observed


def _can_be_output(node: fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.meta.get("val"), Tensor):
        return False
    return node.target is operator.getitem or (is_operator(node) and not writes(node) and not is_view(node))


def _find_source(node: fx.Node) -> tuple[str, int]:
    """The FX node whose result this is, and the position of the result."""
    if node.target is operator.getitem:
        source, position = node.args
        assert isinstance(source, fx.Node)
        assert isinstance(position, int)
        return source.name, position
    return node.name, 0
