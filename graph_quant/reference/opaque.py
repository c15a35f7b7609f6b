"""Functions with data-dependent control flow, as operators: opaque to tracers, with a separate shape inference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from graph_quant.dispatcher import step

Compute = TypeVar("Compute", bound=Callable[..., Any])


def opaque(
    infer: Callable[..., Any], *, ordered: bool = False, writes: Sequence[str] = ()
) -> Callable[[Compute], Compute]:
    """Register the decorated function as an operator; ``infer`` takes the same arguments and infers its results.

    An ``ordered`` operator has side effects: compilers neither drop nor reorder it. Arguments of the names ``writes``
    are written in place.
    """

    def define(compute: Compute) -> Compute:
        schema = torch.library.infer_schema(compute, mutates_args=writes)
        operator = step(compute.__name__ + schema, compute, infer, ordered=ordered)

        @functools.wraps(compute)
        def call(*args: Any, **kwargs: Any) -> Any:
            return operator(*args, **kwargs)

        return call  # type: ignore[return-value]

    return define
