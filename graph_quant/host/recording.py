"""Whether a stream is captured, and who then notes kernels down: the device asks here, and ``capture`` answers.

Whoever serves a kernel asks ``recording[0]`` first: while it is 0, no stream is captured.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch._ops import OpOverload

from .library import DIRECTORY, RUNTIME

runtime = ctypes.CDLL(os.path.join(DIRECTORY, RUNTIME))  # noqa: PTH118
# Streams that are captured, updated or waiting: while there is none, kernels simply run.
recording: Any = (ctypes.c_uint32 * 1).in_dll(runtime, "host_recording")


class Recorder(Protocol):
    """Who notes down what is called on a captured stream."""

    def record(self, op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Serve a call while some stream is captured: note it down if it is this one, else run it."""

    def refuse(self, op: OpOverload) -> None:
        """Raise if the current stream is captured: for calls that cannot be noted down."""

    def record_task(
        self, name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]
    ) -> bool:
        """Note down what is no operator, if the current stream is captured; tell whether it is."""


_recorders: list[Recorder] = []


def set_recorder(recorder: Recorder) -> None:
    """Say who notes calls down, from now on."""
    _recorders[:] = [recorder]


def record(op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Serve a call while some stream is captured."""
    return _recorders[0].record(op, eager, args, kwargs)


def refuse(op: OpOverload) -> None:
    """Raise if a call that cannot be noted down is made on a captured stream."""
    if recording[0]:
        _recorders[0].refuse(op)


def record_task(name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Note down what is no operator, if the current stream is captured; tell whether it is."""
    return _recorders[0].record_task(name, run, tensors, results)
