"""A choice that an environment variable makes for a process, and a block of code for itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

Choice = TypeVar("Choice")


class Setting(Generic[Choice]):
    """``parse`` makes the choice of a text and of what the text comes from, or refuses it; "" is the default."""

    def __init__(self, variable: str, parse: Callable[[str, str], Choice]) -> None:
        self.variable = variable
        self._parse = parse
        self._chosen: ContextVar[Choice] = ContextVar(variable)

    def current(self) -> Choice:
        """What holds now."""
        chosen = self._chosen.get(None)
        return self._parse(os.environ.get(self.variable, ""), self.variable) if chosen is None else chosen

    @contextmanager
    def use(self, text: str, source: str) -> Iterator[None]:
        """Let ``text`` hold inside this block."""
        token = self._chosen.set(self._parse(text, source))
        try:
            yield
        finally:
            self._chosen.reset(token)
