"""Caches compiled code by the metadata of a call's inputs, to skip Dynamo's guards.

Dynamo checks every input to find the code that was compiled for it, which takes as long as a small graph takes to
run. Two calls are equal if their tensors have the same sizes, strides, offsets and dtypes, and their other arguments
are the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

Compiled = Callable[..., Sequence[torch.Tensor]]
# A graph with dynamic sizes may be called with other sizes each time.
_MAX_ENTRIES = 256


class _Call(NamedTuple):
    """A recorded call of compiled code."""

    compiled: Compiled
    arguments: tuple[Any, ...]
    results: Sequence[Any]


class _CachedCall(NamedTuple):
    """Compiled code, its arguments as indices of inputs or fixed values, and the indices of the results to return."""

    compiled: Compiled
    input_indices: list[int | None]
    fixed: list[Any]
    result_indices: list[int]

    def run(self, inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
        """Run the compiled code on inputs with the same metadata as those of the recorded call."""
        arguments = zip(self.input_indices, self.fixed, strict=True)
        results = self.compiled(*[value if index is None else inputs[index] for index, value in arguments])
        return [results[index] for index in self.result_indices]


class CallCache:
    """The cached calls of one graph. ``record_calls`` wraps compiled code, ``run`` looks a call up or records it.

    Not for graphs that write to their inputs: there, the code also depends on which inputs share memory.
    """

    def __init__(self, constants: Iterable[torch.Tensor]) -> None:
        self._constants = {id(constant) for constant in constants}
        self._cached: dict[Any, _CachedCall] = {}
        self._calls: list[_Call] = []

    def record_calls(self, compiled: Compiled) -> Compiled:
        """Return the compiled code with its calls recorded."""

        def call(*arguments: Any) -> Sequence[Any]:
            results = compiled(*arguments)
            self._calls.append(_Call(compiled, arguments, results))
            return results

        return call

    def run(self, guarded: Compiled, inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
        """Return the results of ``guarded``, which is only called if no equal call is cached."""
        key = _key(inputs)
        cached = self._cached.get(key)
        if cached is not None:
            return cached.run(inputs)
        self._calls.clear()
        results = guarded(*inputs)
        entry = self._make_entry(inputs, results)
        if entry is not None:
            if len(self._cached) >= _MAX_ENTRIES:
                self._cached.clear()
            self._cached[key] = entry
        self._calls.clear()
        return results

    def _make_entry(self, inputs: Sequence[Any], results: Sequence[Any]) -> _CachedCall | None:
        """Return an entry for the last call; None if it was not a single call of compiled code."""
        tensors = {id(value): index for index, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
        calls = list(self._calls)  # another thread may clear them
        if len(calls) != 1 or len(tensors) < sum(isinstance(value, torch.Tensor) for value in inputs):
            return None
        compiled, arguments, outputs = calls[0]
        output_index = {id(output): index for index, output in enumerate(outputs)}
        if any(id(result) not in output_index for result in results):
            return None
        if any(
            isinstance(value, torch.Tensor) and id(value) not in tensors and id(value) not in self._constants
            for value in arguments
        ):
            return None
        indices = [tensors.get(id(value)) if isinstance(value, torch.Tensor) else None for value in arguments]
        fixed = [value if index is None else None for index, value in zip(indices, arguments, strict=True)]
        return _CachedCall(compiled, indices, fixed, [output_index[id(result)] for result in results])


def _key(inputs: Sequence[Any]) -> Any:
    metadata = [_metadata(value) if isinstance(value, torch.Tensor) else repr(value) for value in inputs]
    return (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), *metadata)


def _metadata(x: torch.Tensor) -> Any:
    return x.size(), x.stride(), x.dtype, x.storage_offset()
