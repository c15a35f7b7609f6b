"""The functions of ``pkg_resources`` that older TorchAirs call; setuptools has no such module since release 82."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from importlib.util import find_spec
from types import ModuleType
from typing import Any

NAME = "pkg_resources"


def _parse_version(version: str) -> tuple[int, ...]:
    """A version's numbers up to its first word, to be compared with others."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


@contextmanager
def having_pkg_resources() -> Iterator[None]:
    """Let imports inside find ``pkg_resources``, also where it is not installed."""
    if NAME in sys.modules or find_spec(NAME) is not None:
        yield
        return
    stand_in: Any = ModuleType(NAME)
    stand_in.get_distribution, stand_in.parse_version = distribution, _parse_version
    sys.modules[NAME] = stand_in
    try:
        yield
    finally:
        del sys.modules[NAME]
