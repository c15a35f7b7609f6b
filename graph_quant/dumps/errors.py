"""The errors a dump can raise: a sentence for the user."""

from __future__ import annotations

from ..ge import GeError, TooMuchError


class DumpError(GeError):
    """A dump, or something that was asked of it, cannot be read; the message is one line."""


class SizeError(DumpError):
    """A size that was given for a symbol cannot be."""


class UnboundedSizeError(DumpError, TooMuchError):
    """A size that a dump states has no bounds."""


class TooLargeError(DumpError):
    """Smaller sizes are needed."""


class MissingInputError(DumpError):
    """An input cannot be made up, and has to be given."""
