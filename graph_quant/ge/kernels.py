"""The table of kernels: one small function for each GE op type, and what is to be known about that type.

A function's signature is its declaration. Positional parameters are the GE inputs by name, keyword-only ones the
attributes with GE's defaults (a trailing underscore keeps a name from being a Python keyword). Annotations say how an
input is passed: ``Tensor``; ``Sizes`` for sizes, axes and the like, as Python numbers; ``Sequence[...]`` for a
dynamic input; ``... | None`` for an optional one. A kernel that returns a tuple or list has one item for each output.

Kernels are plain traceable torch: the same code runs on CPU tensors, on fake tensors with symbolic sizes, and under
Inductor. The decorator's keywords are the ``Facts`` that costs, lint and verification ask for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..discovery import Index, Table

Function = TypeVar("Function", bound=Callable[..., Any])

# Operations that do not go by the elements of the result alone: by the inner length, by the elements read, and by the
# weights behind each channel.
CONTRACTION, REDUCTION, CONVOLUTION = -1, -2, -3

# Tensors as torch lays them out.
CHANNELS_FIRST: Mapping[str, tuple[Any, ...]] = {"data_format": ("NCHW", "NCDHW")}


@dataclass(frozen=True)
class Facts:
    """What is to be known of a node type.

    ``flops`` are its operations for each element of the result: 0 where it only moves data, CONTRACTION, REDUCTION
    or CONVOLUTION.
    A ``view`` moves nothing either. ``exact`` says that its registration states exactly which dtypes its kernel takes,
    ``same`` which inputs must share one, ``packs`` that its results may be int4.

    ``idle`` are attributes and inputs that change nothing on the host: how a device does it, or what others say as
    well. ``only`` are attributes of which these values alone are computed. All others that a kernel does not take must
    be as GE registers them by default.
    """

    flops: int = 1
    view: bool = False
    exact: bool = False
    same: tuple[str, ...] = ()
    packs: bool = False
    idle: tuple[str, ...] = ()
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Input:
    """How a kernel takes one GE input."""

    name: str
    is_size: bool
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
    returns_sizes: bool
    may_alias: bool = False


_INDEX = Index("KERNELS")

KERNELS: Table[Kernel] = Table(_INDEX)
# The same op types where every input is a size: the arithmetic of shapes.
SIZE_KERNELS: Table[Kernel] = Table(Index("SIZE_KERNELS"))
# The same op types where the inputs declared as sizes are scalar constants: torch rounds some of these otherwise.
CONSTANT_KERNELS: Table[Kernel] = Table(Index("CONSTANT_KERNELS"))
FACTS: Table[Facts] = Table(_INDEX)
_PLAIN = Facts()


def kernel(
    *types: str,
    may_alias: bool = False,
    flops: int = 1,
    view: bool = False,
    exact: bool = False,
    same: tuple[str, ...] = (),
    packs: bool = False,
    idle: tuple[str, ...] = (),
    only: Mapping[str, tuple[Any, ...]] = {},
) -> Callable[[Function], Function]:
    """Register a function as the kernel of GE op types, and what is to be known of them."""
    declare(*types, flops=flops, view=view, exact=exact, same=same, packs=packs, idle=idle, only=only)
    return _registrar(KERNELS, types, may_alias)


def size_kernel(*types: str) -> Callable[[Function], Function]:
    """Register a function as what GE op types do to sizes."""
    return _registrar(SIZE_KERNELS, types, False)


def constant_kernel(*types: str) -> Callable[[Function], Function]:
    """Register a function as what GE op types do where their sizes are scalar constants."""
    return _registrar(CONSTANT_KERNELS, types, False)


def declare(
    *types: str,
    flops: int = 1,
    view: bool = False,
    exact: bool = False,
    same: tuple[str, ...] = (),
    packs: bool = False,
    idle: tuple[str, ...] = (),
    only: Mapping[str, tuple[Any, ...]] = {},
) -> None:
    """Say what is to be known of GE op types; those that no kernel is written for need a declaration of their own."""
    for op_type in types:
        FACTS.add(op_type, Facts(flops, view, exact, same, packs, idle, only))


def facts(op_type: str) -> Facts:
    """What is known of a node type; of one that nothing declares, that it computes its result element by element."""
    return FACTS.get(op_type, _PLAIN)


def _registrar(table: Table[Kernel], types: tuple[str, ...], may_alias: bool) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for op_type in types:
            table.add(op_type, _declared(op_type, function, may_alias))
        return function

    return register


def _declared(op_type: str, function: Callable[..., Any], may_alias: bool) -> Kernel:
    signature = inspect.signature(function)
    inputs, attributes = [], []
    for parameter in signature.parameters.values():
        name, annotation = parameter.name.rstrip("_"), str(parameter.annotation)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            attributes.append((name, parameter.name))
        else:
            inputs.append(Input(name, "Sizes" in annotation, annotation.startswith("Sequence"), "None" in annotation))
    returned = str(signature.return_annotation)
    return Kernel(
        op_type,
        function,
        tuple(inputs),
        tuple(attributes),
        returns_many=returned.startswith(("tuple", "list")),
        returns_sizes="Sizes" in returned,
        may_alias=may_alias,
    )
