"""What is wrong with a GE graph, or with what describes GE, in a sentence."""

from __future__ import annotations


class GeError(ValueError):
    """A GE graph, or GE's own description, cannot be read; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, limit=400))


class TooMuchError(GeError):
    """A graph asks for more than any graph needs, and what it asks for is not computed."""


def printable(text: str, limit: int | None = None) -> str:
    """``text`` on one line with nothing a terminal would act on, shortened in the middle to ``limit``."""
    if limit is not None and len(text) > limit:
        keep = limit // 2
        text = f"{text[:keep]} … {text[-keep:]}"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )
