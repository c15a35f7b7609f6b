"""The errors and deprecations of dumps; every message is one line for the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast
from warnings import warn

from ..ge import GeError, TooMuchError


class DumpError(GeError):
    """A dump cannot be read, or an operation on it is not possible.

    Examples:
        >>> try:
        ...     load("notes.txt")
        ... except DumpError as error:
        ...     print(error)
    """


class SizeError(DumpError):
    """The size passed for a symbol is not possible, or the dump has no such symbol."""


class UnboundedSizeError(DumpError, TooMuchError):
    """A size expression in a dump exceeds the largest integer that is evaluated."""


class TooLargeError(DumpError):
    """A replay would need more memory than allowed."""


class MissingInputError(DumpError):
    """An input cannot be generated and must be passed."""


def renamed(new: str) -> Any:
    """A property that warns and returns the attribute ``new``."""

    def get(owner: Any) -> Any:
        warn(f"this attribute of {type(owner).__name__} is now {new}", DeprecationWarning, stacklevel=2)
        return getattr(owner, new)

    return property(get)


Function = TypeVar("Function", bound=Callable[..., Any])


def renamed_argument(old: str, new: str) -> Callable[[Function], Function]:
    """Let a function still accept the keyword ``old`` for ``new``, with a warning."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                warn(f"{function.__name__}: the argument {old} is now {new}", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast(Function, call)

    return decorate
