"""Computations whose course depends on data, as operators of their own: one step to a tracer, inferred without data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from graph_quant.dispatcher import step

Compute = TypeVar("Compute", bound=Callable[..., Any])


def opaque(infer: Callable[..., Any], *, ordered: bool = False) -> Callable[[Compute], Compute]:
    """Makes the decorated function an operator; ``infer``, of the same arguments, gives its results without values.

    What is ``ordered`` does something that others see: compilers neither drop it nor change its turn.
    """

    def define(compute: Compute) -> Compute:
        schema = torch.library.infer_schema(compute, mutates_args=())
        operator = step(compute.__name__ + schema, compute, infer, ordered=ordered)

        @functools.wraps(compute)
        def call(*args: Any, **kwargs: Any) -> Any:
            return operator(*args, **kwargs)

        return call  # type: ignore[return-value]

    return define
