"""The table of kernels: one small function for each GE op type, and the properties of that type.

A function's signature is its declaration. Positional parameters are the GE inputs by name, keyword-only ones the
attributes with GE's defaults (a trailing underscore keeps a name from being a Python keyword). Annotations say how an
input is passed: ``Tensor``; ``Sizes`` for sizes, axes and the like, as Python numbers; ``Sequence[...]`` for a
dynamic input; ``... | None`` for an optional one. A kernel that returns a tuple or list has one item for each output.

Kernels are plain traceable torch: the same code runs on CPU tensors, on fake tensors with symbolic sizes, and under
Inductor. The decorator's keywords are the ``Facts`` that cost estimates, lint and verification use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..chip import A2_AND_A3, CHIPS, Chip
from ..discovery import Index, Table, read_index

Function = TypeVar("Function", bound=Callable[..., Any])

# Values of ``flops`` for types whose operations are not proportional to the elements of the result: they also depend
# on the contracted size, on the elements of the input, or on the weights of each channel.
CONTRACTION, REDUCTION, CONVOLUTION = -1, -2, -3

# The data formats that torch uses.
CHANNELS_FIRST: Mapping[str, tuple[Any, ...]] = {"data_format": ("NCHW", "NCDHW")}


@dataclass(frozen=True)
class Facts:
    """Properties of a node type.

    Attributes:
        flops: Operations for each element of the result; 0 if it only moves data, or CONTRACTION, REDUCTION,
            CONVOLUTION.
        view: Whether it moves no data either.
        exact: Whether its registration lists exactly the dtypes that its kernel supports.
        same: Inputs that must share one dtype.
        packs: Whether its results may be int4.
        idle: Attributes and inputs without effect on the host: they tune the device, or are redundant.
        only: Attributes that are supported for these values alone. All others that a kernel does not take must have
            GE's default value.
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
    """The declaration of one GE input of a kernel."""

    name: str
    is_size: bool
    is_dynamic: bool
    is_optional: bool


@dataclass(frozen=True)
class Kernel:
    """A kernel and its declaration.

    ``may_alias`` marks results that can share memory with an input, ``chips`` are those that it is described for.
    """

    type: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    attributes: tuple[tuple[str, str], ...]
    returns_many: bool
    returns_sizes: bool
    may_alias: bool = False
    chips: tuple[Chip, ...] = CHIPS


_INDEX = Index("KERNELS")
# The modules of kernels that compute PyTorch's own operators and collectives.
_OF_PYTORCH = ("graph_quant.host.kernels.", "graph_quant.reference.collective.hcom_kernels")

KERNELS: Table[Kernel] = Table(_INDEX)
# The same op types where every input is a size: the arithmetic of shapes.
SIZE_KERNELS: Table[Kernel] = Table(Index("SIZE_KERNELS"))
# The same op types where the inputs declared as sizes are scalar constants: torch rounds some of these otherwise.
CONSTANT_KERNELS: Table[Kernel] = Table(Index("CONSTANT_KERNELS"))
FACTS: Table[Facts] = Table(_INDEX)
_PLAIN = Facts()
_indexed: dict[str, Facts] = {}

# Node types whose results are sizes of tensors.
SHAPE_TYPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})


def kernel(
    *types: str,
    may_alias: bool = False,
    chips: tuple[Chip, ...] | None = None,
    flops: int = 1,
    view: bool = False,
    exact: bool = False,
    same: tuple[str, ...] = (),
    packs: bool = False,
    idle: tuple[str, ...] = (),
    only: Mapping[str, tuple[Any, ...]] = {},
) -> Callable[[Function], Function]:
    """Register a function as the kernel of GE op types.

    Args:
        *types: The GE op types.
        may_alias: Whether results can share memory with an input.
        chips: The chips that the kernel is described for. Kernels of this package for nodes that PyTorch's operators
            become compute the same on every chip; others are those of A2 and A3 unless they say more.
        flops: As in ``Facts``, and so are all that follow.
        view: See ``Facts``.
        exact: See ``Facts``.
        same: See ``Facts``.
        packs: See ``Facts``.
        idle: See ``Facts``.
        only: See ``Facts``.

    Returns:
        The decorator.

    Examples:
        >>> @kernel("Sqrt")
        ... def sqrt(x: Tensor) -> Tensor:
        ...     return x.sqrt()
    """
    declare(*types, flops=flops, view=view, exact=exact, same=same, packs=packs, idle=idle, only=only)
    return _registrar(KERNELS, types, may_alias, chips)


def size_kernel(*types: str) -> Callable[[Function], Function]:
    """Register a function as the kernel of GE op types whose inputs are all sizes."""
    return _registrar(SIZE_KERNELS, types, False)


def constant_kernel(*types: str) -> Callable[[Function], Function]:
    """Register a function as the kernel of GE op types whose size inputs are scalar constants."""
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
    """Declare the properties of GE op types without a kernel."""
    for op_type in types:
        FACTS.add(op_type, Facts(flops, view, exact, same, packs, idle, only))


def facts(op_type: str) -> Facts:
    """The properties of a node type; an undeclared type counts as elementwise.

    They are read from the index, so that the module of the kernel, and torch, need not be imported.
    """
    loaded = FACTS.get_loaded(op_type)
    if loaded is not None:
        return loaded
    if op_type not in _indexed:
        indexed = read_index("FACTS").get(op_type)
        _indexed[op_type] = Facts(**indexed) if indexed else _PLAIN
    return _indexed[op_type]


def list_size_types() -> set[str]:
    """The node types that may compute sizes: with kernels for sizes, or for shapes of tensors."""
    return SIZE_KERNELS.names() | SHAPE_TYPES


def _registrar(
    table: Table[Kernel], types: tuple[str, ...], may_alias: bool, chips: tuple[Chip, ...] | None = None
) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        described = chips or (CHIPS if function.__module__.startswith(_OF_PYTORCH) else A2_AND_A3)
        for op_type in types:
            table.add(op_type, _declared(op_type, function, may_alias, described))
        return function

    return register


def _declared(op_type: str, function: Callable[..., Any], may_alias: bool, chips: tuple[Chip, ...]) -> Kernel:
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
        chips=chips,
    )
