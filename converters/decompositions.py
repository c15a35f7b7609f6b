"""Decompositions: operators that are replaced by others with a lowering, before TorchAir sees them.

PyTorch's compiler takes these from the backend. They apply to GE graphs alone: captured graphs run operators
as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from graph_quant.discovery import record_declaration
from graph_quant.dispatcher import is_defined, overload
from torch._decomp import core_aten_decompositions
from torch._ops import OpOverload

# Those of this package. PyTorch's own are used where neither it nor TorchAir lowers an operator.
DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {}
# Those of operators of other packages, by name: the packages may be imported later.
OUTSIDE: dict[str, Callable[..., Any]] = {}
_GE_MODE = "max-autotune"
# A converter that refers to nothing else is a stub.
_ERRORS = {"NotImplementedError", "RuntimeError", "AssertionError"}
_on = True


def decomposes(*operators: OpOverload | str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the decomposition of operators; NotImplemented keeps the operator.

    An operator that not every release of torch has is named by a string.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operator in operators:
            name = operator if isinstance(operator, str) else operator.name()
            record_declaration("DECOMPOSITIONS", name)
            if is_defined(name):
                DECOMPOSITIONS[overload(name)] = function
        return function

    return register


def decomposes_outside(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the decomposition of an operator that another package defines."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OUTSIDE[name] = function
        record_declaration("DECOMPOSITIONS", name)
        return function

    return register


def outside(compiler_config: Any) -> dict[OpOverload, Callable[..., Any]]:
    """The decompositions of operators that other packages have defined by now."""
    if not _is_enabled(compiler_config):
        return {}
    return {overload(name): function for name, function in OUTSIDE.items() if is_defined(name)}


def _is_enabled(compiler_config: Any) -> bool:
    return bool(_on and compiler_config.mode.value == _GE_MODE)


@cache
def applied() -> dict[OpOverload, Callable[..., Any]]:
    """All other decompositions: of this package, and of PyTorch for operators without a lowering."""
    missing = {
        operator: function
        for operator, function in core_aten_decompositions().items()
        if isinstance(operator, OpOverload) and not has_nodes(operator)
    }
    return {**missing, **DECOMPOSITIONS}


def has_nodes(operator: OpOverload) -> bool:
    """Whether an operator has a converter that is not a stub."""
    converter = getattr(operator, "_ge_converter", None)
    code = getattr(inspect.unwrap(converter), "__code__", None) if converter is not None else None
    return converter is not None and (code is None or not set(code.co_names) <= _ERRORS)


@contextmanager
def switched_off() -> Iterator[None]:
    """Disable these decompositions inside the block."""
    global _on
    _on = False
    try:
        yield
    finally:
        _on = True


def add_to_backend() -> None:
    """Let TorchAir's backend pass them to PyTorch. A user's own decompositions take precedence."""
    from torchair import npu_fx_compiler

    merged = npu_fx_compiler._get_merged_decompositions

    def with_ours(compiler_config: Any, custom_decompositions: Any = None) -> Any:
        ours = applied() if _is_enabled(compiler_config) else {}
        return merged(compiler_config, {**ours, **(custom_decompositions or {})})

    vars(npu_fx_compiler)["_get_merged_decompositions"] = with_ours
