"""Traces of kernels: those that are called, and those that run when a graph is replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from .. import recording
from ..alias import as_cpu
from . import recorder, tape
from .runtime import RUNS, current_stream, state_of
from .traced_kernel import TracedKernel

# Caches are written in place and are large; what a kernel computes of a batch of tokens is not.
_MOST_ELEMENTS = 1 << 20


class Trace:
    """A recorder that collects the kernels of eager calls, and lets captures be recorded as before."""

    def __init__(self, module_of_call: Callable[[], str]) -> None:
        self.kernels: list[TracedKernel] = []
        self._module_of_call = module_of_call
        self._is_inside = False

    @contextmanager
    def collect(self) -> Iterator[list[TracedKernel]]:
        """Collect kernels inside the block."""
        before = recording.current_recorder()
        recording.set_recorder(self)
        recording.recording[0] += 1  # kernels ask for a recorder only while something is captured
        tape.observers.current = self._add_replayed
        try:
            yield self.kernels
        finally:
            tape.observers.current = None
            recording.recording[0] -= 1
            recording.set_recorder(before)

    def record(self, op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle a call: collect it if it runs, and is no part of another kernel."""
        if self._is_inside or state_of(current_stream()) != RUNS:
            return recorder.record(op, eager, args, kwargs)
        self._is_inside = True
        try:
            results = recorder.record(op, eager, args, kwargs)
        finally:
            self._is_inside = False
        self._add(op.name(), [*recorder.npu_tensors(results), *recorder.written_arguments(op, args, kwargs)])
        return results

    def refuse(self, op: OpOverload) -> None:
        """Raise if the current stream is captured."""
        from . import refuse

        refuse(op)

    def record_task(
        self, name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]
    ) -> bool:
        """Record a task of a captured stream; run and collect a launch of Triton."""
        if recorder.record_task(name, run, tensors, results):
            return True
        if not name.startswith("triton::"):
            return False
        run()
        self._add(name, results)
        return True

    def _add(self, operator: str, results: Sequence[Tensor]) -> None:
        self.kernels.append(TracedKernel(operator, _copies(map(as_cpu, results)), self._module_of_call()))

    def _add_replayed(self, operator: str, results: tuple[Tensor, ...]) -> None:
        self.kernels.append(TracedKernel(operator, _copies(results), is_replayed=True))


def _copies(results: Iterator[Tensor] | Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(result.clone() for result in results if result.numel() <= _MOST_ELEMENTS)
