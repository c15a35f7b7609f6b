"""Attributes of version 0.1 that have other names now."""

from __future__ import annotations

from typing import Any
from warnings import warn


def renamed(new: str) -> Any:
    """A property that warns and returns the attribute ``new``."""

    def get(owner: Any) -> Any:
        warn(f"this attribute of {type(owner).__name__} is now {new}", DeprecationWarning, stacklevel=2)
        return getattr(owner, new)

    return property(get)
