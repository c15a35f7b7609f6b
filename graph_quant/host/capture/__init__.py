"""Captured graphs: kernels on a captured stream are noted down instead of run, and run when the graph is replayed.

Whoever serves a kernel asks ``recording[0]`` first: while it is 0, no stream is captured.
"""

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from .runtime import recording

__all__ = ["record", "recording", "refuse"]


def record(op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Serve a call while some stream is captured: note it down if it is this one, else run it."""
    from . import notes

    return notes.record(op, eager, args, kwargs)


def refuse(op: OpOverload) -> None:
    """Raise if the current stream is captured: for calls that cannot be noted down."""
    from .runtime import RUNS, current_stream, state_of

    if recording[0] and state_of(current_stream()) != RUNS:
        raise NotImplementedError(f"{op.name()} with gradients cannot be captured on the host NPU")
