"""The two speeds of the engine: ``eager`` starts at once, ``inductor`` compiles the imported graph first.

``GRAPH_QUANT_ENGINE`` chooses for a process, ``use`` for the graphs that a block of code makes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

EAGER, INDUCTOR = "eager", "inductor"
SPEEDS = (EAGER, INDUCTOR)
VARIABLE = "GRAPH_QUANT_ENGINE"

_chosen: ContextVar[str | None] = ContextVar("graph_quant_engine", default=None)


def current() -> str:
    """The speed of a graph made now."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    return _checked(os.environ.get(VARIABLE, "").strip().lower() or EAGER, VARIABLE)


@contextmanager
def use(speed: str) -> Iterator[None]:
    """Run graphs that are first called inside this block at ``speed``."""
    token = _chosen.set(_checked(speed, "graph_quant.host.engine.use"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _checked(speed: str, source: str) -> str:
    if speed not in SPEEDS:
        raise ValueError(f"{source}: the engine must be one of {', '.join(SPEEDS)}, got {speed!r}")
    return speed
