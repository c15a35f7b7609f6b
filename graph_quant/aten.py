"""The core ATen overloads of PyTorch and how each becomes GE nodes, read from what is registered."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch._ops import OpOverload

NODES, DECOMPOSITION, TRACING, SYMBOLS = "nodes", "decomposition", "while tracing", "symbols"
_NODE_CALL = re.compile(r"\bge\.([A-Z]\w+)|(?:\b(?:computed|custom_op|ge_op)\(\s*(?:op_type=)?\"([A-Z]\w+)\")")
# Names that are no operators of a GE graph: constants, and the types of arguments.
_NO_NODES = {"Const", "Tensor", "TensorSpec"}
# TorchAir computes these from the symbols of the inputs; PyTorch decides the last one while tracing.
_SYMBOLIC = ("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "sym_is_contiguous")


@dataclass(frozen=True)
class Lowering:
    """How one overload is lowered, and by which package; ``nodes`` are those that its converter can emit."""

    overload: str
    how: str
    by: str
    nodes: tuple[str, ...] = ()

    @property
    def is_lowered(self) -> bool:
        """Whether it can be in a graph."""
        return bool(self.how)


def core() -> list[OpOverload]:
    """Return the overloads that PyTorch tags as core ATen, sorted by name."""
    return [overload for overload in _overloads() if torch.Tag.core in overload.tags]


def _overloads() -> Iterator[OpOverload]:
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        packet, _, variant = name.removeprefix("aten::").partition(".")
        overload = getattr(getattr(torch.ops.aten, packet, None), variant or "default", None)
        if name.startswith("aten::") and overload is not None:
            yield overload


def lowering(overload: OpOverload) -> Lowering:
    """Return how an overload is lowered; ``how`` is empty if it is not."""
    import torchair  # noqa: F401  (its import brings the converters in)

    from .converters.decompositions import DECOMPOSITIONS, applied, has_nodes

    name = str(overload)
    if overload.overloadpacket.__name__ in _SYMBOLIC:
        return Lowering(name, SYMBOLS, "TorchAir")
    if has_nodes(overload):
        converter = inspect.unwrap(vars(overload)["_ge_converter"])
        return Lowering(name, NODES, _package_of(converter), tuple(nodes_of(converter)))
    if overload in applied():
        return Lowering(name, DECOMPOSITION, "graph_quant" if overload in DECOMPOSITIONS else "PyTorch")
    if _is_composite(overload) or overload._schema.is_mutable:
        return Lowering(name, TRACING, "PyTorch")
    return Lowering(name, "", "")


def _package_of(converter: Callable[..., Any]) -> str:
    return "graph_quant" if converter.__module__.startswith("graph_quant.") else "TorchAir"


def _is_composite(overload: OpOverload) -> bool:
    """Whether PyTorch itself decomposes it in every call."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in overload.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), str(key)[12:])


def nodes_of(converter: Callable[..., Any]) -> list[str]:
    """Return the GE nodes in the source of a converter and of the functions of its module that it calls."""
    nodes: set[str] = set()
    for function in _reached(converter):
        for match in _NODE_CALL.finditer(inspect.getsource(function)):
            nodes.add(match[1] or match[2])
        nodes.update(_bound_nodes(function))
    return sorted(nodes - _NO_NODES)


def _bound_nodes(function: FunctionType) -> Iterator[str]:
    """Yield the nodes that a function gets from its closure, or from a tuple of its module."""
    tables = (function.__globals__.get(name) for name in function.__code__.co_names)
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    for value in (*cells, *(item for table in tables if isinstance(table, tuple) for item in table)):
        if getattr(value, "__module__", "").startswith("torchair._ge_concrete_graph."):
            yield value.__name__


def _reached(converter: Callable[..., Any]) -> list[FunctionType]:
    pending, seen = [converter], []
    while pending:
        function = pending.pop()
        if isinstance(function, functools.partial) or not isinstance(function, FunctionType) or function in seen:
            continue
        seen.append(function)
        used = (function.__globals__.get(name) for name in function.__code__.co_names)
        pending += [value for value in used if value and getattr(value, "__module__", None) == function.__module__]
    return seen
