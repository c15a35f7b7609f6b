"""Gloo, as the collectives use it."""

from typing import Any, TypeAlias

Gloo: TypeAlias = Any  # a ProcessGroupGloo; torch's stubs leave its collectives out
