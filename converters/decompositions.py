"""Operators that are broken up, before TorchAir sees them, into others that become GE nodes.

PyTorch's compiler takes these from the backend. They serve graphs of GE nodes alone: what is captured and replayed runs
operators as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch._decomp import core_aten_decompositions
from torch._ops import OpOverload

# Those of this package; PyTorch's own serve where neither it nor TorchAir has nodes for an operator.
DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {}
_GE_MODE = "max-autotune"
# A converter that names nothing else is a stub.
_ERRORS = {"NotImplementedError", "RuntimeError", "AssertionError"}
_on = True


def decomposes(*overloads: OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes the decorated function what stands for overloads; where it returns NotImplemented they stay."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            DECOMPOSITIONS[overload] = function
        return function

    return register


@cache
def applied() -> dict[OpOverload, Callable[..., Any]]:
    """Everything that is broken up: by this package, or by PyTorch because nothing lowers it."""
    missing = {
        overload: function
        for overload, function in core_aten_decompositions().items()
        if isinstance(overload, OpOverload) and not has_nodes(overload)
    }
    return {**missing, **DECOMPOSITIONS}


def has_nodes(overload: OpOverload) -> bool:
    """Whether an operator has a converter that does more than refuse."""
    converter = getattr(overload, "_ge_converter", None)
    code = getattr(inspect.unwrap(converter), "__code__", None) if converter is not None else None
    return converter is not None and (code is None or not set(code.co_names) <= _ERRORS)


@contextmanager
def switched_off() -> Iterator[None]:
    """Leave the operators to TorchAir alone inside the block."""
    global _on
    _on = False
    try:
        yield
    finally:
        _on = True


def add_to_backend() -> None:
    """Let TorchAir's backend pass them on to PyTorch; what a user gives it comes first."""
    from torchair import npu_fx_compiler

    merged = npu_fx_compiler._get_merged_decompositions

    def with_ours(compiler_config: Any, custom_decompositions: Any = None) -> Any:
        ours = applied() if _on and compiler_config.mode.value == _GE_MODE else {}
        return merged(compiler_config, {**ours, **(custom_decompositions or {})})

    vars(npu_fx_compiler)["_get_merged_decompositions"] = with_ours
