"""Captured graphs: kernels on a captured stream are recorded, and run when the graph is replayed."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ..recording import set_recorder
from .traced_kernel import TracedKernel

__all__ = ["TracedKernel", "keep_results", "rebind_address", "record", "record_task", "refuse", "start", "trace"]


def start() -> None:
    """Record calls on captured streams from now on. Calling it again changes nothing."""
    from . import graphs, rng_states

    set_recorder(sys.modules[__name__])
    graphs.patch()
    rng_states.patch()


def record(op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handle a call while some stream is captured: record it if that is the current stream, else run it."""
    from . import recorder

    return recorder.record(op, eager, args, kwargs)


def refuse(op: OpOverload) -> None:
    """Raise if the current stream is captured: for calls that cannot be recorded."""
    from .runtime import RUNS, current_stream, state_of

    if state_of(current_stream()) != RUNS:
        raise NotImplementedError(f"{op.name()} with gradients cannot be captured on the host NPU")


def rebind_address(tensor: Tensor) -> None:
    """Let the next replay use ``tensor`` instead of a freed tensor that was captured at the same address."""
    from . import tape

    tape.rebind_address(tensor)


def record_task(name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Record a task that is no operator if the current stream is captured; return whether it is."""
    from . import recorder

    return recorder.record_task(name, run, tensors, results)


def keep_results() -> None:
    """Keep addresses of the results of kernels that are captured from now on, so that `trace` sees them in replays."""
    from . import tape

    tape.observers.keeps_results = True


def trace(module_of_call: Callable[[], str]) -> AbstractContextManager[list[TracedKernel]]:
    """Collect the kernels that run inside the block, called or replayed, with copies of their results."""
    from .traces import Trace

    return Trace(module_of_call).collect()
