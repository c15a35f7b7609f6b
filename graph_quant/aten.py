"""Which ATen overloads PyTorch calls core, and how each becomes GE nodes: read from what is registered."""

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
_MADE = re.compile(r"\bge\.([A-Z]\w+)|(?:\b(?:computed|custom_op|ge_op)\(\s*(?:op_type=)?\"([A-Z]\w+)\")")
# What is no operator in GE's graph: constants, and the types of arguments.
_NO_NODES = {"Const", "Tensor", "TensorSpec"}
# TorchAir computes these from the symbols of the inputs, and PyTorch decides the last one when it traces.
_OF_SYMBOLS = ("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "sym_is_contiguous")


@dataclass(frozen=True)
class Lowering:
    """How one overload is lowered, and by whom; ``nodes`` are those that its converter's text can make."""

    overload: str
    how: str
    by: str
    nodes: tuple[str, ...] = ()

    @property
    def is_lowered(self) -> bool:
        """Whether it is in a graph at all."""
        return bool(self.how)


def core() -> list[OpOverload]:
    """The overloads that PyTorch tags as core ATen, in the order of their names."""
    return [overload for overload in _overloads() if torch.Tag.core in overload.tags]


def _overloads() -> Iterator[OpOverload]:
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        packet, _, variant = name.removeprefix("aten::").partition(".")
        overload = getattr(getattr(torch.ops.aten, packet, None), variant or "default", None)
        if name.startswith("aten::") and overload is not None:
            yield overload


def lowering(overload: OpOverload) -> Lowering:
    """How an overload is lowered; one that is not says nothing."""
    import torchair  # noqa: F401  (its import brings the converters in)

    from .converters.decompositions import DECOMPOSITIONS, applied, has_nodes

    name = str(overload)
    if overload.overloadpacket.__name__ in _OF_SYMBOLS:
        return Lowering(name, SYMBOLS, "TorchAir")
    if has_nodes(overload):
        converter = inspect.unwrap(vars(overload)["_ge_converter"])
        return Lowering(name, NODES, _whose(converter), tuple(nodes_of(converter)))
    if overload in applied():
        return Lowering(name, DECOMPOSITION, "graph_quant" if overload in DECOMPOSITIONS else "PyTorch")
    if _is_composite(overload) or overload._schema.is_mutable:
        return Lowering(name, TRACING, "PyTorch")
    return Lowering(name, "", "")


def _whose(converter: Callable[..., Any]) -> str:
    return "graph_quant" if converter.__module__.startswith("graph_quant.") else "TorchAir"


def _is_composite(overload: OpOverload) -> bool:
    """Whether PyTorch itself breaks it up whenever it is called."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in overload.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), str(key)[12:])


def nodes_of(converter: Callable[..., Any]) -> list[str]:
    """The GE nodes that a converter's text, and that of the functions beside it which it calls, can make."""
    found: set[str] = set()
    for function in _reached(converter):
        for made in _MADE.finditer(inspect.getsource(function)):
            found.add(made[1] or made[2])
        found.update(_given(function))
    return sorted(found - _NO_NODES)


def _given(function: FunctionType) -> Iterator[str]:
    """Nodes that a function is given by what it is defined in, or by a table beside it."""
    tables = (function.__globals__.get(name) for name in function.__code__.co_names)
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    for each in (*cells, *(item for table in tables if isinstance(table, tuple) for item in table)):
        if getattr(each, "__module__", "").startswith("torchair._ge_concrete_graph."):
            yield each.__name__


def _reached(converter: Callable[..., Any]) -> list[FunctionType]:
    waiting, seen = [converter], []
    while waiting:
        function = waiting.pop()
        if isinstance(function, functools.partial) or not isinstance(function, FunctionType) or function in seen:
            continue
        seen.append(function)
        beside = (function.__globals__.get(name) for name in function.__code__.co_names)
        waiting += [each for each in beside if each and getattr(each, "__module__", None) == function.__module__]
    return seen
