"""Entries of the tables of calls of extensions' operators."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from graph_quant.dispatcher import overload

from support.tensors import on


@dataclass(frozen=True)
class Case:
    """A valid call, and an independent statement of its results.

    ``expected`` takes the arguments of the call as CPU tensors and returns an array, or None, for each result and for
    each argument of ``writes``, in that order. ``bound`` is the allowed error of a float result relative to its absmax,
    which the table justifies; 0 means bitwise equality.
    """

    op: str
    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    expected: Callable[..., Any] | None = None
    writes: tuple[str, ...] = ()
    bound: float = 0.0

    def on(self, device: str) -> tuple[list[Any], dict[str, Any]]:
        """Return copies of the arguments on a device."""
        return [_copy(device, value) for value in self.args], {
            name: _copy(device, value) for name, value in self.kwargs.items()
        }

    def run(self, args: list[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Call the operator; return its results and what it wrote."""
        returned = overload(self.op)(*args, **kwargs)
        results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        return [*(result for result in results if result is not None), *self.written(args, kwargs)]

    def written(self, args: list[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Return the arguments that the call writes."""
        names = [argument.name for argument in overload(self.op)._schema.arguments]
        values = dict(zip(names, args, strict=False)) | kwargs
        return [values[name] for name in self.writes]

    def __str__(self) -> str:
        return f"{self.op}: {self.label}"


@dataclass(frozen=True)
class Wrong:
    """A call that is refused, and the start of the message after the operator's name."""

    op: str
    message: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op}: {self.message}"


def _copy(device: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return on(device, value) if device != "cpu" else value.clone()
    return [_copy(device, item) for item in value] if isinstance(value, list) else value
