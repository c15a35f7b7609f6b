"""The table of kernels: one small function for each GE op type.

A function's signature is its declaration. Positional parameters are the GE inputs by name, keyword-only ones the
attributes with GE's defaults (a trailing underscore keeps a name from being a Python keyword). Annotations say how an
input is passed: ``Tensor``; ``HostValue`` for sizes, axes and the like, as Python numbers; ``Sequence[...]`` for a
dynamic input; ``... | None`` for an optional one. A kernel that returns a tuple or list has one item for each output.

Kernels are plain traceable torch: the same code runs on CPU tensors, on fake tensors with symbolic sizes, and under
Inductor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Input:
    """How a kernel takes one GE input."""

    name: str
    is_host: bool
    is_dynamic: bool
    is_optional: bool


@dataclass(frozen=True)
class Kernel:
    """A kernel and its declaration. ``may_alias`` marks results that can share memory with an input."""

    type: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    attributes: tuple[tuple[str, str], ...]
    returns_many: bool
    returns_host: bool
    may_alias: bool = False


KERNELS: dict[str, Kernel] = {}
# The same op types where every input is a host value: the arithmetic of shapes.
HOST_KERNELS: dict[str, Kernel] = {}
# The same op types where the inputs declared as host values are scalar constants: torch rounds some of these otherwise.
CONSTANT_KERNELS: dict[str, Kernel] = {}


def kernel(*types: str, may_alias: bool = False) -> Callable[[Function], Function]:
    """Register a function as the kernel of GE op types."""
    return _registrar(KERNELS, types, may_alias)


def host_kernel(*types: str) -> Callable[[Function], Function]:
    """Register a function as what GE op types do to host values."""
    return _registrar(HOST_KERNELS, types, False)


def constant_kernel(*types: str) -> Callable[[Function], Function]:
    """Register a function as what GE op types do where their host inputs are scalar constants."""
    return _registrar(CONSTANT_KERNELS, types, False)


def _registrar(table: dict[str, Kernel], types: tuple[str, ...], may_alias: bool) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for op_type in types:
            if op_type in table:
                raise ValueError(f"two kernels for {op_type}")
            table[op_type] = _declare(op_type, function, may_alias)
        return function

    return register


def _declare(op_type: str, function: Callable[..., Any], may_alias: bool) -> Kernel:
    signature = inspect.signature(function)
    inputs, attributes = [], []
    for parameter in signature.parameters.values():
        name, annotation = parameter.name.rstrip("_"), str(parameter.annotation)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            attributes.append((name, parameter.name))
        else:
            inputs.append(
                Input(name, "HostValue" in annotation, annotation.startswith("Sequence"), "None" in annotation)
            )
    returned = str(signature.return_annotation)
    return Kernel(
        op_type,
        function,
        tuple(inputs),
        tuple(attributes),
        returns_many=returned.startswith(("tuple", "list")),
        returns_host="HostValue" in returned,
        may_alias=may_alias,
    )
