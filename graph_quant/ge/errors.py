"""Errors about GE graphs and GE's own description, and helpers that format error messages."""

from __future__ import annotations


class GeError(ValueError):
    """A GE graph, or GE's own description, cannot be read; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, limit=400))


class TooMuchError(GeError):
    """A graph requests more memory or elements than the limits allow; it is not computed."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its class where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def printable(text: str, limit: int | None = None) -> str:
    """``text`` on one line, control characters escaped, shortened in the middle to ``limit``."""
    if limit is not None and len(text) > limit:
        keep = limit // 2
        text = f"{text[:keep]} … {text[-keep:]}"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )
