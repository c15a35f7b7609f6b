"""Connects kernels with captures: whether a stream is captured, and the recorder that ``capture`` provides.

Kernels check ``recording[0]`` first: while it is 0, no stream is captured.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch._ops import OpOverload

from .library import DIRECTORY, RUNTIME

runtime = ctypes.CDLL(os.path.join(DIRECTORY, RUNTIME))  # noqa: PTH118
# The number of streams that are captured, updated or waiting; while it is 0, kernels simply run.
recording: Any = (ctypes.c_uint32 * 1).in_dll(runtime, "host_recording")


class Recorder(Protocol):
    """Records calls on a captured stream."""

    def record(self, op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle a call while some stream is captured: record it if that is the current stream, else run it."""

    def refuse(self, op: OpOverload) -> None:
        """Raise if the current stream is captured: for calls that cannot be recorded."""

    def record_task(
        self, name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]
    ) -> bool:
        """Record a task that is no operator if the current stream is captured; return whether it is."""


_recorders: list[Recorder] = []


def set_recorder(recorder: Recorder) -> None:
    """Set the recorder of this process."""
    _recorders[:] = [recorder]


def current_recorder() -> Recorder:
    """Return the recorder of this process."""
    return _recorders[0]


def record(op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handle a call while some stream is captured."""
    return _recorders[0].record(op, eager, args, kwargs)


def refuse(op: OpOverload) -> None:
    """Raise if a call that cannot be recorded is made on a captured stream."""
    if recording[0]:
        _recorders[0].refuse(op)


def record_task(name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Record a task that is no operator if the current stream is captured; return whether it is."""
    return _recorders[0].record_task(name, run, tensors, results)
