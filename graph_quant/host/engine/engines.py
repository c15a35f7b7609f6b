"""The two engines of the host: ``eager`` starts at once, ``inductor`` compiles the imported graph first.

``GRAPH_QUANT_ENGINE`` chooses for a process, ``use`` for the graphs that a block of code makes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

EAGER, INDUCTOR = "eager", "inductor"
ENGINES = (EAGER, INDUCTOR)
VARIABLE = "GRAPH_QUANT_ENGINE"

_chosen: ContextVar[str | None] = ContextVar("graph_quant_engine", default=None)


def current() -> str:
    """The engine of a graph made now."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    return _checked(os.environ.get(VARIABLE, "").strip().lower() or EAGER, VARIABLE)


@contextmanager
def use(engine: str) -> Iterator[None]:
    """Run graphs that are first called inside this block by ``engine``."""
    token = _chosen.set(_checked(engine, "graph_quant.host.engine.use"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _checked(engine: str, source: str) -> str:
    if engine not in ENGINES:
        raise ValueError(f"{source}: the engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    return engine
