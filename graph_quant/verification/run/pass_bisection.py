"""Finds the pass over a GE graph that changes a result: compiles it without passes, then with one more at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import passes
from .eager import preserve_global_state
from .state import have_same_bits

Make = Callable[[], Callable[..., Sequence[Any]]]


def find_changing_pass(make: Make, inputs: Sequence[Any]) -> str | None:
    """The first of the selected passes that changes the results of a graph; None where none does."""
    names = passes.current()
    if not names or _is_unchanged(make, inputs, names):
        return None
    ends = range(1, len(names) + 1)
    return next((names[end - 1] for end in ends if not _is_unchanged(make, inputs, names[:end])), None)


def _is_unchanged(make: Make, inputs: Sequence[Any], names: Sequence[str]) -> bool:
    (one, one_inputs), (other, other_inputs) = (
        _run(make, inputs, selection) for selection in (passes.OFF, ",".join(names))
    )
    pairs = zip([*one, *one_inputs], [*other, *other_inputs], strict=True)
    return all(have_same_bits(a, b) for a, b in pairs if isinstance(a, Tensor))


def _run(make: Make, inputs: Sequence[Any], selection: str) -> tuple[Sequence[Any], Sequence[Any]]:
    copies = [value.clone() if isinstance(value, Tensor) else value for value in inputs]
    with passes.use(selection), preserve_global_state(), torch.no_grad():
        return make()(*copies), copies
