"""Computations whose course depends on data, as operators of their own: one step to a tracer, inferred without data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._library.effects import EffectType

_library = torch.library.Library("graph_quant", "FRAGMENT")

Compute = TypeVar("Compute", bound=Callable[..., Any])


def opaque(infer: Callable[..., Any], *, ordered: bool = False) -> Callable[[Compute], Compute]:
    """Makes the decorated function an operator; ``infer``, of the same arguments, gives its results without values.

    What is ``ordered`` does something that others see: compilers neither drop it nor change its turn.
    """

    def define(compute: Compute) -> Compute:
        name = compute.__name__
        _library.define(name + torch.library.infer_schema(compute, mutates_args=()))
        # One without a tensor among its arguments has no device to be found by.
        takes_tensors = any("Tensor" in str(hint) for hint in inspect.signature(compute).parameters.values())
        _library.impl(name, compute, "CPU" if takes_tensors else "CompositeExplicitAutograd")
        torch.library.register_fake(f"graph_quant::{name}", infer, lib=_library)
        if ordered:
            _library._register_effectful_op(f"graph_quant::{name}", EffectType.ORDERED)
        operator = getattr(torch.ops.graph_quant, name)

        @functools.wraps(compute)
        def call(*args: Any) -> Any:
            return operator(*args)

        return call  # type: ignore[return-value]

    return define
