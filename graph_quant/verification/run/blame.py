"""Names the pass over a GE graph that changes a result: the graph is made again without passes, then pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import passes
from .eager import undisturbed
from .state import same

Make = Callable[[], Callable[..., Sequence[Any]]]


def changing_pass(make: Make, inputs: Sequence[Any]) -> str | None:
    """The first of the passes in force that a graph gives something else with; None where they change nothing."""
    names = passes.current()
    if not names or _agree(make, inputs, names):
        return None
    ends = range(1, len(names) + 1)
    return next((names[end - 1] for end in ends if not _agree(make, inputs, names[:end])), None)


def _agree(make: Make, inputs: Sequence[Any], names: Sequence[str]) -> bool:
    (one, one_inputs), (other, other_inputs) = (_run(make, inputs, each) for each in (passes.OFF, ",".join(names)))
    pairs = zip([*one, *one_inputs], [*other, *other_inputs], strict=True)
    return all(same(a, b) for a, b in pairs if isinstance(a, Tensor))


def _run(make: Make, inputs: Sequence[Any], through: str) -> tuple[Sequence[Any], Sequence[Any]]:
    given = [each.clone() if isinstance(each, Tensor) else each for each in inputs]
    with passes.use(through), undisturbed(), torch.no_grad():
        return make()(*given), given
