"""Which passes run: all, none, or those of a list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NAMES = ("constants", "equal", "casts", "int4", "reshapes", "transposes", "shapes", "dead")
ALL, OFF = "on", "off"
VARIABLE = "GRAPH_QUANT_PASSES"

_chosen: ContextVar[tuple[str, ...] | None] = ContextVar("graph_quant_passes", default=None)


def current() -> tuple[str, ...]:
    """The names of the passes that a graph made now goes through, in their order."""
    chosen = _chosen.get()
    return _parsed(os.environ.get(VARIABLE, ""), VARIABLE) if chosen is None else chosen


@contextmanager
def use(passes: str) -> Iterator[None]:
    """Send the graphs that are made inside this block through ``passes``: "on", "off", or names with commas."""
    token = _chosen.set(_parsed(passes, "graph_quant.passes.use"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _parsed(setting: str, source: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in setting.split(",") if word.strip()]
    if words in ([], [ALL]):
        return NAMES
    if words == [OFF]:
        return ()
    unknown = [word for word in words if word not in NAMES]
    if unknown:
        raise ValueError(f"{source}: must be {ALL}, {OFF} or some of {', '.join(NAMES)}, got {unknown[0]!r}")
    return tuple(name for name in NAMES if name in words)
