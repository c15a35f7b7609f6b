"""Captured graphs: kernels on a captured stream are noted down instead of run, and run when the graph is replayed."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ..recording import set_recorder

__all__ = ["rebind_address", "record", "record_task", "refuse", "start"]


def start() -> None:
    """Note down, from now on, what the device is asked for on captured streams. Calling it again changes nothing."""
    from . import graphs, rng_states

    set_recorder(sys.modules[__name__])
    graphs.mend()
    rng_states.mend()


def record(op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Serve a call while some stream is captured: note it down if it is this one, else run it."""
    from . import recorder

    return recorder.record(op, eager, args, kwargs)


def refuse(op: OpOverload) -> None:
    """Raise if the current stream is captured: for calls that cannot be noted down."""
    from .runtime import RUNS, current_stream, state_of

    if state_of(current_stream()) != RUNS:
        raise NotImplementedError(f"{op.name()} with gradients cannot be captured on the host NPU")


def rebind_address(tensor: Tensor) -> None:
    """Let the next replay take ``tensor`` for one that was captured at the same address and is gone."""
    from . import tape

    tape.rebind_address(tensor)


def record_task(name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Note down what is no operator, if the current stream is captured; tell whether it is."""
    from . import recorder

    return recorder.record_task(name, run, tensors, results)
