"""Computations whose course depends on data, as operators of their own: one step to a tracer, inferred without data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_library = torch.library.Library("graph_quant", "FRAGMENT")

Compute = TypeVar("Compute", bound=Callable[..., Any])


def opaque(infer: Callable[..., Any]) -> Callable[[Compute], Compute]:
    """Makes the decorated function an operator; ``infer``, of the same arguments, gives its results without values."""

    def define(compute: Compute) -> Compute:
        name = compute.__name__
        _library.define(name + torch.library.infer_schema(compute, mutates_args=()))
        _library.impl(name, compute, "CPU")
        torch.library.register_fake(f"graph_quant::{name}", infer, lib=_library)
        operator = getattr(torch.ops.graph_quant, name)

        @functools.wraps(compute)
        def call(*args: Any) -> Any:
            return operator(*args)

        return call  # type: ignore[return-value]

    return define
