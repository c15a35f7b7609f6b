"""Infers the types of graphs whose descs and simple nodes suffice, without torch.

Descs that GE wrote are trusted if they state every size as a number. Of what a converter wrote, the descs of inputs
and constants are read, and the nodes of a small set of types follow from the rules of ``simple_nodes``, which know
only calls that the host's kernels accept. Everything else needs those kernels: the result is None.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...ge import (
    CONST_TYPES,
    END_TYPES,
    INPUT_TYPES,
    OF_DESC,
    SHAPE_TYPES,
    STORED_DTYPES,
    UNDEFINED,
    Node,
    list_size_types,
)
from .inference import Inference, compare_with_desc
from .shapes import PLAIN, DescType, TensorType, evaluate, read_desc, symbols_in
from .simple_nodes import Operand, infer_node

if TYPE_CHECKING:
    from ..dump import Dump

_MOST_ELEMENTS = 1 << 48
_LONGEST_VALUES = 64
_PLAIN_EXPRESSION = re.compile(r"[\w\s+*-]*")
_STRUCT_FORMATS = {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "int32": "i", "int64": "q", "float16": "e",
                   "float32": "f", "float64": "d"}  # fmt: skip


class _NeedsKernels(Exception):
    """The types of the graph do not follow from descs and simple nodes."""


def read_stated_types(dump: Dump) -> Inference | None:
    """The types of a graph and of the graphs that it calls; None if kernels have to infer them."""
    try:
        return _read_trusted(dump, _Symbols()) if dump.trusts_descs else _Reader(dump).read()
    except _NeedsKernels:
        return None


def _read_trusted(dump: Dump, symbols: _Symbols) -> Inference:
    """The types that GE, or an FX graph, states."""
    result = Inference()
    shared: dict[TensorType, TensorType] = {}
    size_types = list_size_types()
    for node in dump.order:
        inputs = [edge.node for edge in node.inputs if edge.node]
        if node.type in SHAPE_TYPES or (
            inputs and (node.type in size_types or node.name in dump.calls) and result.values.keys() & set(inputs)
        ):
            raise _NeedsKernels  # it may compute sizes, whose values are inferred
        types = []
        for desc in node.proto.output_desc:
            tensor = _read_trusted_desc(read_desc(desc), symbols)
            types.append(shared.setdefault(tensor, tensor))
        result.types[node.name] = tuple(types)
        if node.type in CONST_TYPES and types and (items := _read_values(node, types[0])) is not None:
            result.values[node.name] = items
    for calls in dump.calls.values():
        for call in calls:
            if call.graph.name not in result.inner:
                result.inner[call.graph.name] = _read_trusted(call.graph, symbols)
    result.symbols = sorted(symbols.known)
    return result


def _read_trusted_desc(declared: DescType, symbols: _Symbols) -> TensorType:
    stored = declared.dtype in STORED_DTYPES
    shape: tuple[Any, ...] | None = declared.dims
    if declared.meta is not None and (shape is None or min(shape, default=0) < 0):
        shape = tuple(map(symbols.evaluate, declared.meta))
    if declared.is_size or declared.dtype == UNDEFINED or shape is None:
        raise _NeedsKernels
    numbers = [size for size in shape if isinstance(size, int)]
    if min(numbers, default=0) < 0 or math.prod(numbers) > _MOST_ELEMENTS or not (stored or len(numbers) == len(shape)):
        raise _NeedsKernels
    return TensorType(declared.dtype, shape, inferred=stored, layout=declared.layout)


class _Symbols:
    """The symbols of a dump as sympy symbols; sympy is imported with the first."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def evaluate(self, text: str) -> Any:
        """A size as a number or a sympy expression."""
        if not _PLAIN_EXPRESSION.fullmatch(text):
            raise _NeedsKernels
        for name in symbols_in(text):
            if name not in self.known:
                import sympy

                self.known[name] = sympy.Symbol(name, integer=True, positive=True)
        size = evaluate(text, self.known)
        return int(size) if isinstance(size, int) or size.is_number else size


class _Reader:
    """Reads one graph that a converter wrote."""

    def __init__(self, dump: Dump) -> None:
        if dump.calls or dump.uncalled:
            raise _NeedsKernels
        self._dump = dump
        self._result = Inference()
        self._operands: dict[str, tuple[Operand, ...]] = {}
        self._shared: dict[TensorType, TensorType] = {}
        self._symbols = _Symbols()

    def read(self) -> Inference:
        for node in self._dump.order:
            operands = tuple(self._share(operand) for operand in self._read_node(node))
            self._operands[node.name] = operands
            self._record(node, operands)
        self._result.symbols = sorted(self._symbols.known)
        return self._result

    def _read_node(self, node: Node) -> tuple[Operand, ...]:
        if node.type in END_TYPES:
            return ()
        if node.type in INPUT_TYPES:
            return (self._read_input(node),)
        if node.type in CONST_TYPES:
            return (_read_constant(node),)
        inputs: dict[str, Operand] = {}
        for edge in node.inputs:
            if edge.node:
                outputs = self._operands[edge.node]
                if edge.output >= len(outputs):
                    raise _NeedsKernels
                inputs[edge.name] = outputs[edge.output]
        operands = infer_node(node, inputs)
        if operands is None or len(operands) < len(node.proto.output_desc):
            raise _NeedsKernels
        return operands

    def _read_input(self, node: Node) -> Operand:
        if not node.proto.output_desc or len(node.proto.output_desc) > 1:
            raise _NeedsKernels
        declared = read_desc(node.proto.output_desc[0])
        dims, meta = declared.dims, declared.meta
        if declared.is_size or declared.dtype not in STORED_DTYPES or declared.dtype.startswith("complex"):
            raise _NeedsKernels
        if meta is None:
            if not declared.is_complete:
                raise _NeedsKernels
            return Operand(TensorType(declared.dtype, dims), None)
        shape = tuple(map(self._symbols.evaluate, meta))
        stated = dims if dims is not None else shape
        if len(stated) != len(shape):
            raise _NeedsKernels
        if any(dim >= 0 and isinstance(size, int) and size != dim for size, dim in zip(shape, stated, strict=True)):
            # The meta describes the view, the desc the memory: for a transposed weight they differ.
            if min(stated) < 0 or not all(isinstance(size, int) for size in shape):
                raise _NeedsKernels
            shape = tuple(stated)
        return Operand(TensorType(declared.dtype, shape), None)

    def _share(self, operand: Operand) -> Operand:
        sizes = operand.type.shape or ()
        if math.prod(size for size in sizes if isinstance(size, int)) > _MOST_ELEMENTS:
            raise _NeedsKernels
        return Operand(self._shared.setdefault(operand.type, operand.type), operand.values)

    def _record(self, node: Node, operands: tuple[Operand, ...]) -> None:
        types = []
        descs = list(node.proto.output_desc)
        for index, operand in enumerate(operands):
            tensor = operand.type
            if index < len(descs):
                declared: DescType = read_desc(descs[index])
                self._result.add_disagreement(
                    node.name, descs[index].name or f"output {index}", compare_with_desc(tensor, declared)
                )
                if declared.layout != PLAIN:
                    laid_out = replace(tensor, layout=declared.layout)
                    tensor = self._shared.setdefault(laid_out, laid_out)
            types.append(tensor)
        self._result.types[node.name] = tuple(types)
        if operands and operands[0].values is not None:
            self._result.values[node.name] = operands[0].values


def _read_constant(node: Node) -> Operand:
    tensor = node.proto.attr["value"].t
    shape, dtype = tuple(tensor.desc.shape.dim), OF_DESC.get(tensor.desc.dtype, UNDEFINED)
    if dtype not in _STRUCT_FORMATS or min(shape, default=0) < 0:
        raise _NeedsKernels
    count = math.prod(shape)
    if len(tensor.data) not in (0, count * struct.calcsize(f"<{_STRUCT_FORMATS[dtype]}")):
        raise _NeedsKernels
    return Operand(TensorType(dtype, shape), _read_values(node, TensorType(dtype, shape)), is_constant=True)


def _read_values(node: Node, tensor: TensorType) -> tuple[Any, ...] | None:
    """The elements of a small constant; None if it is large, or the file does not contain its bytes."""
    stored = node.proto.attr["value"].t if "value" in node.proto.attr else None
    if stored is None or (not stored.data and not stored.HasField("desc")):
        return None
    shape = tuple(stored.desc.shape.dim)
    count, dtype = math.prod(shape), OF_DESC.get(stored.desc.dtype, UNDEFINED)
    if count > _LONGEST_VALUES or dtype != tensor.dtype or shape != tensor.shape:
        return None
    if dtype not in _STRUCT_FORMATS:
        raise _NeedsKernels
    layout = f"<{count}{_STRUCT_FORMATS[dtype]}"
    return struct.unpack(layout, stored.data) if len(stored.data) == struct.calcsize(layout) else None
