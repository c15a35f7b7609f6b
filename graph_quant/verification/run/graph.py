"""The middle level: one GE graph, compared with the FX graph that it was lowered from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ...passes.hook import get_steps
from ..compare.operators import is_random, is_uninitialised, writes
from ..errors import VerificationError
from ..report.report import ChangedByPass, GraphReport, OutputReport, Report, Status
from .fused import Fused
from .intermediates import EngineRun, ExtraOutputs, runs_node_by_node, to_host
from .lowering import LoweredNodes, get_lowering
from .nodes import NodeComparison, as_tensor
from .pass_bisection import find_changing_pass
from .progress import Progress
from .region import OutputComparer, current_region_call


class VerifiedGraph:
    """A GE graph that TorchAir compiled. Its first ``calls`` calls are compared with its FX graph, node by node."""

    def __init__(
        self,
        fused: Fused,
        compiled: Any,
        compile_graph: Callable[[fx.GraphModule], Any],
        report: Report,
        calls: int | None,
        progress: Progress,
    ) -> None:
        module = fused.module
        self._fused = fused
        self._module = module
        self._compiled = compiled
        self._report = report
        self._left = calls
        self._call = 0
        self._progress = progress
        self._compile = compile_graph
        self._lowering: LoweredNodes = get_lowering(compiled)
        self._further_calls = 0  # calls whose outputs alone are compared
        self._writes = any(writes(node) for node in module.graph.nodes)
        self._is_unknown = any(is_random(node) or is_uninitialised(node) for node in module.graph.nodes)
        self._recordable = runs_node_by_node(compiled)
        self._run = EngineRun(compiled) if self._recordable else ExtraOutputs(module, compiled, compile_graph)

    def __call__(self, *args: Any) -> Any:
        if self._left == self._call:
            return self._compiled(*args) if current_region_call() else self._compare_outputs(*args)
        self._call += 1
        self._fused.check(args, self._report)
        inputs = [self._keep(argument) for argument in args]
        outputs, observed = self._run(*args)
        name = self._compiled.graph.name
        with self._progress(f"comparing {name}") as report_progress, torch.no_grad():
            comparison = NodeComparison(
                self._module, observed, self._lowering, self._report.thresholds, report_progress
            )
            expected = comparison.run(*inputs)
        report = GraphReport(name, self._call, comparison.nodes, tuple(comparison.unobserved))
        self._report.packed |= comparison.packed
        # A second graph has random samples of its own.
        comparer = OutputComparer(self._report, is_random=report.count(Status.RANDOM) > 0 and not self._recordable)
        report.outputs = _compare_outputs(comparer, expected, outputs)
        if self._writes:
            report.outputs += _compare_outputs(comparer, inputs, args, " after the call", "input")
        if not report.ok and not report.count(Status.RANDOM):
            self._find_wrong_pass(name, args, inputs)
        self._report.graphs.append(report)
        region_call = current_region_call()
        if region_call is not None:
            region_call.graphs.append(report)
            region_call.digests = comparison.digests
        return outputs

    def _compare_outputs(self, *args: Any) -> Any:
        """Run a graph outside of any region (a backward graph), and compare its outputs with its FX graph's."""
        self._further_calls += 1
        inputs = [self._keep(argument) for argument in args]
        outputs = self._compiled(*args)
        with self._progress(f"comparing {self._compiled.graph.name}") as report_progress, torch.no_grad():
            try:
                comparison = NodeComparison(self._module, {}, self._lowering, self._report.thresholds, report_progress)
                expected = None if self._is_unknown else comparison.run(*inputs)
            except VerificationError:
                expected = None
        if expected is None:
            self._report.calls_unknown += 1
            return outputs
        comparer = OutputComparer(self._report)
        compared = _compare_outputs(comparer, expected, outputs)
        if self._writes:
            compared += _compare_outputs(comparer, inputs, args, " after the call", "input")
        title = f"{self._compiled.graph.name} call {self._call + self._further_calls}"
        self._report.outputs += [
            dataclasses.replace(output, name=f"{title} {output.name}")
            for output in compared
            if output.status is not Status.EQUAL
        ]
        self._report.calls_beyond += 1
        return outputs

    def _find_wrong_pass(self, name: str, args: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Report the pass over the GE graph that changes its results, if there is one."""
        if not any(step.replaced or step.changed for step in get_steps(self._compiled.graph)):
            return
        on_device = [
            kept.to(argument.device) if isinstance(argument, Tensor) else argument
            for kept, argument in zip(inputs, args, strict=True)
        ]
        wrong = find_changing_pass(self._compile_again, on_device)
        if wrong is not None:
            self._report.passes.append(ChangedByPass(f"{wrong} over {name}"))

    def _compile_again(self) -> Any:
        """The graph compiled once more, with the sizes and fake tensors that it was traced with."""
        traced = [node.meta.get("val") for node in self._module.graph.nodes if node.op == "placeholder"]
        with torch._guards.tracing(torch._guards.TracingContext(torch._guards.detect_fake_mode(traced))):
            return self._compile(self._module)

    def _keep(self, argument: Any) -> Any:
        """An input on the host; a copy where the graph writes to its inputs."""
        if not isinstance(argument, Tensor):
            return argument
        return to_host(argument).clone() if self._writes else to_host(argument)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _compare_outputs(
    comparer: OutputComparer, expected: Sequence[Any], results: Sequence[Any], when: str = "", kind: str = "output"
) -> list[OutputReport]:
    """Compare the results of a graph with those of its FX graph."""
    return [
        comparer.compare(f"{kind}[{index}]{when}", as_tensor(reference, result), to_host(result))
        for index, (reference, result) in enumerate(zip(expected, results, strict=True))
        if isinstance(result, Tensor)
    ]
