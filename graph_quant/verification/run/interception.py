"""Verifies the graphs that any code compiles for the NPU, by standing between TorchAir and what it compiled."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

from ...passes.hook import get_steps
from ...start.preload import HOST, chosen
from ..compare.operators import is_random, is_uninitialised, writes
from ..errors import VerificationError
from ..report.report import ChangedByPass, GraphReport, OutputReport, Report, Status, Thresholds
from .blame import changing_pass
from .lowering import LoweredNodes, lowering_of, noting
from .observe import EngineRun, ExtraOutputs, is_recordable, on_host
from .passes import watched
from .progress import Progress, silent
from .region import Judge, Region, inside
from .walk import Walk, as_tensor


@contextmanager
def capture(
    *,
    max_error: float | None = None,
    min_sqnr: float | None = None,
    calls: int | None = 1,
    title: str = "captured graphs",
    progress: Progress = silent,
) -> Iterator[Report]:
    """Verify what this block compiles for the NPU.

    What the compiled code gives is compared with the same code run eagerly, in every call; in the first ``calls`` calls
    (None: in all) every node of its graphs is compared as well, with the operator it was made from.
    """
    import npugraph_ex
    import torchair._ge_concrete_graph.fx2ge_converter as converter
    import torchair.npu_fx_compiler as compiler

    capturing = npugraph_ex.npu_fx_compiler
    capture_region = capturing._compile_graph_with_aot
    report = Report(_of_rank(title), device_name(), Thresholds(max_error, min_sqnr))
    graph_type, compiler_type = converter.GeConcreteGraph, compiler._NpuFxCompiler
    parse_node, generate = graph_type.parse_node, compiler_type._gen_compiled_gm
    compile_region = compiler._compile_graph_with_aot

    def verified(self: Any, gm: fx.GraphModule, example_inputs: Any, observer: Any) -> Any:
        compiled = generate(self, gm, example_inputs, observer)
        if not isinstance(compiled, graph_type):
            return compiled  # it runs eagerly, as its configuration asks
        again = lambda module: generate(self, module, example_inputs, observer)  # noqa: E731
        return _VerifiedGraph(gm, compiled, again, report, calls, progress)

    def compared(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        return Region(gm, compile_region(gm, *args, **kwargs), report, calls, progress)

    def compared_capture(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        return Region(gm, capture_region(gm, *args, **kwargs), report, calls, progress)

    graph_type.parse_node, compiler_type._gen_compiled_gm = noting(parse_node), verified
    compiler._compile_graph_with_aot, capturing._compile_graph_with_aot = compared, compared_capture
    try:
        with watched("npugraph_ex", report, calls):
            yield report
    except BaseException as error:
        report.settle(error)
        raise
    else:
        report.settle(report.stopped)
    finally:
        compiler._compile_graph_with_aot, capturing._compile_graph_with_aot = compile_region, capture_region
        graph_type.parse_node, compiler_type._gen_compiled_gm = parse_node, generate


def device_name() -> str:
    """What runs the graphs."""
    return "the host NPU" if chosen() is HOST else f"npu:{torch.npu.current_device()}"  # type: ignore[attr-defined]


class _VerifiedGraph:
    """What TorchAir compiled, compared with the FX graph it came from while ``calls`` last."""

    def __init__(
        self,
        module: fx.GraphModule,
        compiled: Any,
        compile_graph: Callable[[fx.GraphModule], Any],
        report: Report,
        calls: int | None,
        progress: Progress,
    ) -> None:
        self._module = module
        self._compiled = compiled
        self._report = report
        self._left = calls
        self._call = 0
        self._progress = progress
        self._compile = compile_graph
        self._lowering: LoweredNodes = lowering_of(compiled)
        self._beyond = 0  # calls whose nodes are not looked at
        self._writes = any(writes(node) for node in module.graph.nodes)
        self._is_unknown = any(is_random(node) or is_uninitialised(node) for node in module.graph.nodes)
        self._recordable = is_recordable(compiled)
        self._run = EngineRun(compiled) if self._recordable else ExtraOutputs(module, compiled, compile_graph)

    def __call__(self, *args: Any) -> Any:
        if self._left == self._call:
            return self._compiled(*args) if inside() is not None else self._compared(*args)
        self._call += 1
        given = [self._kept(argument) for argument in args]
        outputs, observed = self._run(*args)
        name = self._compiled.graph.name
        with self._progress(f"comparing {name}") as told, torch.no_grad():
            walk = Walk(self._module, observed, self._lowering, self._report.thresholds, told)
            expected = walk.run(*given)
        found = GraphReport(name, self._call, walk.nodes, tuple(walk.unobserved))
        # A second graph draws random numbers of its own.
        self._report.packed |= walk.packed
        judge = Judge(self._report, is_random=found.count(Status.RANDOM) > 0 and not self._recordable)
        found.outputs = _outputs(judge, expected, outputs)
        if self._writes:
            found.outputs += _outputs(judge, given, args, " after the call", "input")
        if not found.ok and not found.count(Status.RANDOM):
            self._blame(name, args, given)
        self._report.graphs.append(found)
        region = inside()
        if region is not None:
            region.graphs.append(found)
            region.digests = walk.digests
        return outputs

    def _compared(self, *args: Any) -> Any:
        """Run a graph that no region is around (a backward one), and compare what it gives with its FX graph."""
        self._beyond += 1
        given = [self._kept(argument) for argument in args]
        outputs = self._compiled(*args)
        with self._progress(f"comparing {self._compiled.graph.name}") as told, torch.no_grad():
            try:
                walk = Walk(self._module, {}, self._lowering, self._report.thresholds, told)
                expected = None if self._is_unknown else walk.run(*given)
            except VerificationError:
                expected = None
        if expected is None:
            self._report.calls_unknown += 1
            return outputs
        found = _outputs(Judge(self._report), expected, outputs)
        if self._writes:
            found += _outputs(Judge(self._report), given, args, " after the call", "input")
        title = f"{self._compiled.graph.name} call {self._call + self._beyond}"
        self._report.outputs += [
            dataclasses.replace(each, name=f"{title} {each.name}") for each in found if each.status is not Status.EQUAL
        ]
        self._report.calls_beyond += 1
        return outputs

    def _blame(self, name: str, args: Sequence[Any], given: Sequence[Any]) -> None:
        """Say which pass over the GE graph changes what it gives, if one does."""
        if not any(step.replaced or step.changed for step in get_steps(self._compiled.graph)):
            return
        inputs = [
            one.to(other.device) if isinstance(other, Tensor) else other for one, other in zip(given, args, strict=True)
        ]
        blamed = changing_pass(self._again, inputs)
        if blamed is not None:
            self._report.passes.append(ChangedByPass(f"{blamed} over {name}"))

    def _again(self) -> Any:
        """The graph compiled once more, with the sizes and fake tensors that it was traced with."""
        traced = [node.meta.get("val") for node in self._module.graph.nodes if node.op == "placeholder"]
        with torch._guards.tracing(torch._guards.TracingContext(torch._guards.detect_fake_mode(traced))):
            return self._compile(self._module)

    def _kept(self, argument: Any) -> Any:
        """An input as it is before the graph runs, which may write to it."""
        if not isinstance(argument, Tensor):
            return argument
        return on_host(argument).clone() if self._writes else on_host(argument)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _outputs(
    judge: Judge, expected: Sequence[Any], got: Sequence[Any], when: str = "", what: str = "output"
) -> list[OutputReport]:
    """What a graph gave, each against what the FX graph gives."""
    return [
        judge.output(f"{what}[{place}]{when}", as_tensor(reference, result), on_host(result))
        for place, (reference, result) in enumerate(zip(expected, got, strict=True))
        if isinstance(result, Tensor)
    ]


def _of_rank(title: str) -> str:
    """The title of a report, with the rank that made it where there are several."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    return title if ranks == "1" else f"{title}, rank {os.environ.get('RANK', '0')} of {ranks}"
