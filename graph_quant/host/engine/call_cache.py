"""What Inductor made of a graph, called without Dynamo's checks where the same call was made before.

Dynamo looks at every input to find the code that was compiled for such inputs, which takes as long as a small graph
takes to compute. Two calls are the same where their inputs have the same sizes, strides, offsets and dtypes, and the
same numbers stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

Compiled = Callable[..., Sequence[torch.Tensor]]
# Calls that are remembered: a graph of open sizes may be called with others each time.
_MOST = 256


class _Call(NamedTuple):
    """A call of compiled code: its arguments, and what it gave."""

    compiled: Compiled
    arguments: tuple[Any, ...]
    results: Sequence[Any]


class _Way(NamedTuple):
    """Compiled code, the inputs or numbers it takes, and which of its results are asked for."""

    compiled: Compiled
    inputs: list[int | None]
    others: list[Any]
    results: list[int]

    def go(self, inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
        """What the compiled code gives for inputs like those it was first called with."""
        places = zip(self.inputs, self.others, strict=True)
        made = self.compiled(*[other if place is None else inputs[place] for place, other in places])
        return [made[place] for place in self.results]


class Shortcuts:
    """The ways of one graph. ``noting`` makes compilers note their calls, ``run`` takes a way or learns one.

    A graph that writes to its inputs has no shortcuts: which of them share memory decides what its code may do.
    """

    def __init__(self, constants: Iterable[torch.Tensor]) -> None:
        self._constants = {id(each) for each in constants}
        self._ways: dict[Any, _Way] = {}
        self._calls: list[_Call] = []

    def noting(self, compiled: Compiled) -> Compiled:
        """The compiled code; its calls are noted."""

        def call(*arguments: Any) -> Sequence[Any]:
            results = compiled(*arguments)
            self._calls.append(_Call(compiled, arguments, results))
            return results

        return call

    def run(self, checked: Compiled, inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
        """The results of ``checked``, which is called where no such call was made before."""
        key = _key(inputs)
        way = self._ways.get(key)
        if way is not None:
            return way.go(inputs)
        self._calls.clear()
        results = checked(*inputs)
        learnt = self._learn(inputs, results)
        if learnt is not None:
            if len(self._ways) >= _MOST:
                self._ways.clear()
            self._ways[key] = learnt
        self._calls.clear()
        return results

    def _learn(self, inputs: Sequence[Any], results: Sequence[Any]) -> _Way | None:
        """The way that the last call took; None where it was not straight through one piece of compiled code."""
        tensors = {id(each): place for place, each in enumerate(inputs) if isinstance(each, torch.Tensor)}
        calls = list(self._calls)  # another thread may clear them
        if len(calls) != 1 or len(tensors) < sum(isinstance(each, torch.Tensor) for each in inputs):
            return None
        compiled, arguments, made = calls[0]
        given = {id(each): place for place, each in enumerate(made)}
        if any(id(each) not in given for each in results):
            return None
        if any(
            isinstance(each, torch.Tensor) and id(each) not in tensors and id(each) not in self._constants
            for each in arguments
        ):
            return None
        places = [tensors.get(id(each)) if isinstance(each, torch.Tensor) else None for each in arguments]
        others = [each if place is None else None for place, each in zip(places, arguments, strict=True)]
        return _Way(compiled, places, others, [given[id(each)] for each in results])


def _key(inputs: Sequence[Any]) -> Any:
    told = [_told(each) if isinstance(each, torch.Tensor) else repr(each) for each in inputs]
    return (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), *told)


def _told(x: torch.Tensor) -> Any:
    return x.size(), x.stride(), x.dtype, x.storage_offset()
