"""The one error a dump can raise: a sentence for the user."""

from __future__ import annotations

from ..ge.errors import GeError


class DumpError(GeError):
    """A dump, or something that was asked of it, cannot be read; the message is one line."""
