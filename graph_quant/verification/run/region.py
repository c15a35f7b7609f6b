"""Compares what a script gets from a compiled function with the same function run eagerly."""

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
from ...ge import printable
from ..compare.metrics import Deviation, compare, different, dtype_name
from ..compare.quantised import elements
from ..compare.values import NOTHING, leaves, same_values
from ..errors import VerificationError
from ..report.report import Decomposition, GraphReport, OutputReport, Report, Status
from .eager import Digest, Eager, digest, separate, undisturbed
from .observe import on_host
from .progress import Progress


@dataclass
class Inside:
    """What the graphs of one call of a region tell: their reports, and the results by the node of Dynamo's graph."""

    graphs: list[GraphReport] = field(default_factory=list)
    digests: dict[str, set[Digest]] = field(default_factory=dict)


_INSIDE: ContextVar[Inside | None] = ContextVar("inside", default=None)


@contextmanager
def looked_into() -> Iterator[Inside]:
    """Graphs that run in this block tell ``inside`` what they find."""
    inside = Inside()
    before = _INSIDE.set(inside)
    try:
        yield inside
    finally:
        _INSIDE.reset(before)


def inside() -> Inside | None:
    """Who wants to be told."""
    return _INSIDE.get()


class Region:
    """A part of the user's code that Dynamo captured as one, in place of what TorchAir's backend returned for it."""

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
        self._written = _written_inputs()
        self._report = report
        self._calls = calls
        self._call = 0
        self._name = ""
        self._is_random = False
        self._alike: dict[int, bool] = {}  # by the place of an output: whether both drew the same random numbers
        self._progress = progress

    def __call__(self, *args: Any) -> Any:
        self._call += 1
        is_looked_into = self._calls is None or self._call <= self._calls
        if self._is_random and not is_looked_into and not any(self._alike.values()):
            self._report.calls_unknown += 1
            with looked_into():
                return self._compiled(*args)
        given = separate(args, self._written)
        eager, expected, failure = self._run_eagerly(Eager(self._module, keeps_digests=is_looked_into), given)
        with looked_into() as inside:
            results = self._run_compiled(args, expected, failure)
        self._note(inside)
        found = self._outputs(Judge(self._report, self._is_random, failure), args, given, expected, results)
        if is_looked_into:
            self._alike |= {place: output.status is Status.EQUAL for place, output in enumerate(found)}
            self._report.outputs += found
        else:  # A script may call a graph thousands of times: what is equal is counted.
            self._report.outputs += [output for output in found if output.status is not Status.EQUAL]
            self._report.calls_beyond += 1
        if any(output.status in (Status.DIFFERS, Status.CLOSE) for output in found):
            self._report.decompositions += _first_decomposition(self._name, eager, inside.digests)
        return results

    def _run_compiled(self, args: Sequence[Any], expected: Any, failure: str) -> Any:
        """Run the graph. That it stops where eager does not is a difference, also where the script goes on."""
        try:
            return self._compiled(*args)
        except VerificationError:
            raise
        except Exception as error:
            if not failure:
                name = f"{self._name or 'a graph'} call {self._call}"
                found = different(f"it stops, eager does not: {_first_line(error)}")
                output = OutputReport(name, Status.DIFFERS, found, type(expected).__name__, ())
                self._report.raised.append((error, output))
            raise

    def _note(self, inside: Inside) -> None:
        """Keep what the graphs of a call that was looked into tell for the calls after it."""
        if not inside.graphs and not self._name:
            # TorchAir made no GE graph of it: only what comes out can be compared
            inside.graphs.append(GraphReport(f"function_{len(self._report.graphs)}", self._call, []))
            self._report.graphs.append(inside.graphs[0])
        for graph in inside.graphs:
            self._name = self._name or graph.name
            self._is_random |= any(node.status is Status.RANDOM for node in graph.nodes)

    def _outputs(
        self, judge: Judge, args: Sequence[Any], given: Sequence[Any], expected: Any, results: Any
    ) -> list[OutputReport]:
        """What a call gave and wrote to, each against what the eager run did."""
        title = f"{self._name} " + (f"call {self._call} " if self._call > 1 else "")
        places = range(len(args)) if self._written is None else sorted(self._written)
        written = {f"input[{place}]": (given[place], args[place]) for place in places}
        found = judge.results(title, expected, results) + judge.written(title, written)
        return [
            dataclasses.replace(output, status=judge.status_of(output.difference))
            if output.status is Status.RANDOM and self._alike.get(place)
            else output
            for place, output in enumerate(found)
        ]

    def _run_eagerly(self, eager: Eager, given: Sequence[Any]) -> tuple[Eager, Any, str]:
        with self._progress("running eagerly"), undisturbed():
            try:
                return eager, eager.run(*given), ""
            except Exception as error:
                return eager, None, _first_line(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


@dataclass(frozen=True)
class Judge:
    """Says of outputs what is to be said, given what is known of the call: that it is random, or why eager stopped."""

    report: Report
    is_random: bool = False
    failure: str = ""

    def results(self, title: str, expected: Any, results: Any) -> list[OutputReport]:
        """All tensors that came out."""
        got = leaves(results)
        if self.failure:
            reference: dict[str, Any] = {path: None for path, leaf in got.items() if isinstance(leaf, Tensor)}
        else:
            reference = leaves(expected)
        found = []
        for path in {**reference, **got}:
            pair = reference.get(path, NOTHING), got.get(path, NOTHING)
            if any(isinstance(each, Tensor) for each in pair):
                found.append(self.output(f"{title}output{path}", *pair))
            elif not self.failure and not same_values(*pair):
                other = different(f"{printable(repr(pair[1]), 60)} instead of {printable(repr(pair[0]), 60)}")
                found.append(OutputReport(f"{title}output{path}", Status.DIFFERS, other, type(pair[0]).__name__, ()))
        return found

    def written(self, title: str, pairs: Mapping[str, tuple[Any, Any]]) -> list[OutputReport]:
        """All tensors that the call wrote to, as the eager run and as the graph left them."""
        return [
            self.output(f"{title}{name} after the call", eager, graph)
            for name, (eager, graph) in pairs.items()
            if isinstance(eager, Tensor) or isinstance(graph, Tensor)
        ]

    def output(self, name: str, eager: Any, graph: Any) -> OutputReport:
        """One of them."""
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
        """What is to be said of two results that differ and should not."""
        return Status.CLOSE if self.report.thresholds.accept(difference) else Status.DIFFERS

    def _difference(self, eager: Any, graph: Any) -> tuple[Deviation, bool]:
        """What lies between two results, also where one is no tensor or elsewhere; and whether they hold int4."""
        if not isinstance(eager, Tensor) or not isinstance(graph, Tensor):
            return different(f"{_kind(graph)} instead of {_kind(eager)}"), False
        if eager.device != graph.device:
            return different(f"on {graph.device} instead of {eager.device}"), False
        is_packed = eager.dtype == INT4.storage and digest(eager)[2] in self.report.packed
        destination = INT4 if is_packed else None
        return compare(elements(on_host(eager), destination), elements(on_host(graph), destination)), is_packed


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def _kind(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else "no tensor"


def _written_inputs() -> set[int] | None:
    """Which inputs are written to, as AOTAutograd found when it compiled them just now; None where it says nothing."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if metadata is None:
        return None
    return {place for place, each in enumerate(metadata.input_info) if each.mutates_data or each.mutates_metadata}


def _first_decomposition(graph: str, eager: Eager, made: Mapping[str, set[Digest]]) -> list[Decomposition]:
    """The first result of the eager run that no node of its decomposition has."""
    for name, expected in eager.digests.items():
        if name in made and expected not in made[name]:
            return [Decomposition(graph, name, eager.lines[name])]
    return []
