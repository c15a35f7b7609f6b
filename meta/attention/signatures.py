"""Signatures from lists of names, for functions with many arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


def with_signature(names: Sequence[str], function: Callable[..., Value]) -> Callable[..., Value]:
    """``function`` with a signature of the parameters ``names``."""

    @functools.wraps(function)
    def named(*args: Any, **kwargs: Any) -> Value:
        return function(*args, **kwargs)

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    named.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return named
