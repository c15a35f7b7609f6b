"""The outer level: one region, whose results are compared with the same code run eagerly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from ...destination import INT4
from ...ge import first_line, printable
from ..compare.metrics import Deviation, different, dtype_name
from ..compare.metrics import compare as compare_tensors
from ..compare.quantised import elements
from ..compare.values import NOTHING, are_equal, leaves
from ..errors import VerificationError
from ..report.report import Decomposition, GraphReport, OutputReport, Report, Status
from .eager import Digest, Eager, copy_written, digest, preserve_global_state
from .intermediates import to_host
from .progress import Progress


@dataclass
class RegionCall:
    """One call of a region: the reports of its graphs, and digests of their results by the node of Dynamo's graph.

    ``fused`` is whether all fusions are within their bounds, None where nothing is fused.
    """

    graphs: list[GraphReport] = field(default_factory=list)
    digests: dict[str, set[Digest]] = field(default_factory=dict)
    fused: bool | None = None


_CURRENT: ContextVar[RegionCall | None] = ContextVar("region_call", default=None)


@contextmanager
def record_region_call() -> Iterator[RegionCall]:
    """Collect the reports of the graphs that run inside the block."""
    region_call = RegionCall()
    before = _CURRENT.set(region_call)
    try:
        yield region_call
    finally:
        _CURRENT.reset(before)


def current_region_call() -> RegionCall | None:
    """The call of a region that runs now, if any."""
    return _CURRENT.get()


class Region:
    """A part of the user's code that Dynamo captured as one graph. Replaces the callable of TorchAir's backend."""

    def __init__(
        self,
        module: fx.GraphModule,
        compiled: Callable[..., Any],
        report: Report,
        calls: int | None,
        progress: Progress,
    ) -> None:
        self._module = module
        self._compiled = compiled
        self._written = _find_written_inputs()
        self._report = report
        self._calls = calls
        self._call = 0
        self._name = ""
        self._is_random = False
        self._is_within_fusions = False  # fused graphs, whose fusions are within their bounds
        self._has_same_samples: dict[int, bool] = {}  # by output: whether eager and graph had equal random samples
        self._progress = progress

    def __call__(self, *args: Any) -> Any:
        self._call += 1
        compares_nodes = self._calls is None or self._call <= self._calls
        if self._is_random and not compares_nodes and not any(self._has_same_samples.values()):
            self._report.calls_unknown += 1
            with record_region_call():
                return self._compiled(*args)
        inputs = copy_written(args, self._written)
        eager, expected, failure = self._run_eagerly(Eager(self._module, keeps_digests=compares_nodes), inputs)
        with record_region_call() as region_call:
            results = self._run_compiled(args, expected, failure)
        self._add_graphs(region_call)
        if region_call.fused is not None:
            self._is_within_fusions = region_call.fused
        comparer = OutputComparer(self._report, self._is_random, failure, self._is_within_fusions)
        outputs = self._compare_outputs(comparer, args, inputs, expected, results)
        if compares_nodes:
            self._has_same_samples |= {index: output.status is Status.EQUAL for index, output in enumerate(outputs)}
            self._report.outputs += outputs
        else:  # A script may call a graph thousands of times: equal outputs are only counted.
            self._report.outputs += [output for output in outputs if output.status is not Status.EQUAL]
            self._report.calls_beyond += 1
        if any(output.status in (Status.DIFFERS, Status.CLOSE) for output in outputs):
            self._report.decompositions += _find_first_decomposition(self._name, eager, region_call.digests)
        return results

    def _run_compiled(self, args: Sequence[Any], expected: Any, failure: str) -> Any:
        """Run the graph. An error that eager execution does not raise is reported, even if the script catches it."""
        try:
            return self._compiled(*args)
        except VerificationError:
            raise
        except Exception as error:
            if not failure:
                name = f"{self._name or 'a graph'} call {self._call}"
                difference = different(f"it stops, eager does not: {first_line(error)}")
                output = OutputReport(name, Status.DIFFERS, difference, type(expected).__name__, ())
                self._report.raised.append((error, output))
            raise

    def _add_graphs(self, region_call: RegionCall) -> None:
        """Take the name of the region, and whether it is random, from its graphs."""
        if not region_call.graphs and not self._name:
            # TorchAir built no GE graph for it: only its results can be compared.
            region_call.graphs.append(
                GraphReport(f"function_{len(self._report.graphs)}", self._call, [], is_captured=True)
            )
            self._report.graphs.append(region_call.graphs[0])
        for graph in region_call.graphs:
            self._name = self._name or graph.name
            self._is_random |= any(node.status is Status.RANDOM for node in graph.nodes)

    def _compare_outputs(
        self, comparer: OutputComparer, args: Sequence[Any], inputs: Sequence[Any], expected: Any, results: Any
    ) -> list[OutputReport]:
        """Compare the results of a call, and the inputs that it wrote to, with those of the eager run."""
        title = f"{self._name} " + (f"call {self._call} " if self._call > 1 else "")
        indices = range(len(args)) if self._written is None else sorted(self._written)
        written = {f"input[{index}]": (inputs[index], args[index]) for index in indices}
        outputs = comparer.compare_results(title, expected, results) + comparer.compare_written(title, written)
        return [
            dataclasses.replace(output, status=comparer.status_of(output.difference))
            if output.status is Status.RANDOM and self._has_same_samples.get(index)
            else output
            for index, output in enumerate(outputs)
        ]

    def _run_eagerly(self, eager: Eager, inputs: Sequence[Any]) -> tuple[Eager, Any, str]:
        with self._progress("running eagerly"), preserve_global_state():
            try:
                return eager, eager.run(*inputs), ""
            except Exception as error:
                return eager, None, first_line(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


@dataclass(frozen=True)
class OutputComparer:
    """Compares the outputs of one call.

    ``is_random``: it samples; ``failure``: the error of the eager run, if any; ``is_within_fusions``: its graphs are
    fused, and each fusion is within its bound.
    """

    report: Report
    is_random: bool = False
    failure: str = ""
    is_within_fusions: bool = False

    def compare_results(self, title: str, expected: Any, results: Any) -> list[OutputReport]:
        """Compare all tensors, and other values, that the call returned."""
        returned = leaves(results)
        if self.failure:
            reference: dict[str, Any] = {path: None for path, leaf in returned.items() if isinstance(leaf, Tensor)}
        else:
            reference = leaves(expected)
        outputs = []
        for path in {**reference, **returned}:
            pair = reference.get(path, NOTHING), returned.get(path, NOTHING)
            if any(isinstance(value, Tensor) for value in pair):
                outputs.append(self.compare(f"{title}output{path}", *pair))
            elif not self.failure and not are_equal(*pair):
                other = different(f"{printable(repr(pair[1]), 60)} instead of {printable(repr(pair[0]), 60)}")
                outputs.append(OutputReport(f"{title}output{path}", Status.DIFFERS, other, type(pair[0]).__name__, ()))
        return outputs

    def compare_written(self, title: str, pairs: Mapping[str, tuple[Any, Any]]) -> list[OutputReport]:
        """Compare all tensors that the call wrote to; ``pairs`` holds them after the eager run and after the graph."""
        return [
            self.compare(f"{title}{name} after the call", eager, graph)
            for name, (eager, graph) in pairs.items()
            if isinstance(eager, Tensor) or isinstance(graph, Tensor)
        ]

    def compare(self, name: str, eager: Any, graph: Any) -> OutputReport:
        """Compare one output."""
        present = eager if isinstance(eager, Tensor) else graph
        assert isinstance(present, Tensor)
        difference, is_packed = self._difference(eager, graph)
        if self.failure:
            status = Status.UNKNOWN
        elif difference.equal:
            status = Status.EQUAL
        elif self.is_random:
            status = Status.RANDOM
        else:
            status = self.status_of(difference)
        note = f"eager stops: {self.failure}" if self.failure else ""
        dtype, shape = dtype_name(present), tuple(present.shape)
        if is_packed:
            dtype, shape = INT4.name, (*shape[:-1], shape[-1] * INT4.packing)
        return OutputReport(name, status, difference, dtype, shape, note)

    def status_of(self, difference: Deviation) -> Status:
        """The status of two results that differ."""
        limits = self.report.thresholds
        has_limits = limits.max_error is not None or limits.min_sqnr is not None
        is_rounding = self.is_within_fusions and not has_limits and not difference.mismatch
        return Status.CLOSE if is_rounding or limits.accept(difference) else Status.DIFFERS

    def _difference(self, eager: Any, graph: Any) -> tuple[Deviation, bool]:
        """The deviation of two results, which may lack a tensor or differ in device; and whether they hold int4."""
        if not isinstance(eager, Tensor) or not isinstance(graph, Tensor):
            return different(f"{_kind(graph)} instead of {_kind(eager)}"), False
        if eager.device != graph.device:
            return different(f"on {graph.device} instead of {eager.device}"), False
        is_packed = eager.dtype == INT4.storage and digest(eager)[2] in self.report.packed
        destination = INT4 if is_packed else None
        return compare_tensors(elements(to_host(eager), destination), elements(to_host(graph), destination)), is_packed


def _kind(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else "no tensor"


def _find_written_inputs() -> set[int] | None:
    """The indices of inputs that are written to, by AOTAutograd's metadata of the graph just compiled, if any."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if metadata is None:
        return None
    return {index for index, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata}


def _find_first_decomposition(graph: str, eager: Eager, digests: Mapping[str, set[Digest]]) -> list[Decomposition]:
    """The first eager result that no node of its decomposition reproduces."""
    for name, expected in eager.digests.items():
        if name in digests and expected not in digests[name]:
            return [Decomposition(graph, name, eager.lines[name])]
    return []
