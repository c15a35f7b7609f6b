"""Warnings about calls that a device takes and that are nearly always mistakes; each is shown once."""

from __future__ import annotations

import warnings

from .settings import Setting


def _parse(text: str, source: str) -> bool:
    if text not in ("", "on", "off"):
        raise ValueError(f"{source} must be on or off, got {text!r}")
    return text != "off"


WARNINGS = Setting("GRAPH_QUANT_WARNINGS", _parse)
_shown: set[tuple[str, str]] = set()
# How often a warning was due, shown or not: plans of calls that warn are not cached.
calls = 0


class LikelyMistakeWarning(UserWarning):
    """A call that a device takes and that is nearly always a mistake."""


def warn_once(operator: str, argument: str, message: str) -> None:
    """Warn of an argument of an operator, once in a process; never with GRAPH_QUANT_WARNINGS=off."""
    global calls
    calls += 1
    if (operator, argument) in _shown or not WARNINGS.current():
        return
    _shown.add((operator, argument))
    warnings.warn(f"{operator}: {message} (GRAPH_QUANT_WARNINGS=off silences this)", LikelyMistakeWarning, stacklevel=2)
