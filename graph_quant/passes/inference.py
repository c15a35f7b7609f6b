"""Infers dtypes, shapes, and the values of small integer tensors before a graph runs.

Each node type has a shape function (``shape_functions``, ``view_shape_functions``). Descs of computed values are not
used: TorchAir leaves them empty, or writes those of a view that it has not applied yet. Where nothing can be inferred
of an output, the result is ``UNKNOWN``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..ge import OF_ATTRIBUTE, OF_DESC, TO_DESC, to_python
from .sizes import Sizes, number, symbol

# The values of longer tensors are not tracked: they are data, not sizes.
MAX_TRACKED_ELEMENTS = 64


class Inferred(NamedTuple):
    """What is inferred of one output. ``value`` are its elements in row-major order. None means unknown."""

    dtype: str | None = None
    shape: Sizes | None = None
    value: Sizes | None = None

    @property
    def desc(self) -> int | None:
        """The dtype as a number of the proto enum, which descs use."""
        return None if self.dtype is None else TO_DESC.get(self.dtype)

    @property
    def numbers(self) -> list[int] | None:
        """The elements, where all of them are known numbers."""
        numbers = [size.number for size in self.value or ()]
        return None if self.value is None or None in numbers else [size for size in numbers if size is not None]


class InputInfo(NamedTuple):
    """What the caller knows of a graph input: its shape, its value where it is a size, and the symbols that are > 0."""

    shape: Sizes | None = None
    value: Sizes | None = None
    positive: frozenset[str] = frozenset()


UNKNOWN = Inferred()


class NodeContext:
    """What a shape function reads: a node, and what is inferred of its inputs, by name."""

    def __init__(self, op: Any, inputs: Mapping[str, Inferred], scalars: frozenset[str] = frozenset()) -> None:
        self.op = op
        self.inputs = inputs
        # Symbols that are integer arguments, not sizes of tensors: they may have any value.
        self.scalars = scalars

    def __getitem__(self, name: str) -> Inferred:
        return self.inputs.get(name, UNKNOWN)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value."""
        return to_python(self.op.attr[name]) if name in self.op.attr else default

    def dtype(self, attribute: str) -> str | None:
        """The dtype that an attribute names."""
        return OF_ATTRIBUTE.get(self.attribute(attribute))


ShapeFunction = Callable[[NodeContext], Inferred | list[Inferred]]
SHAPE_FUNCTIONS: dict[str, ShapeFunction] = {}


def shape_function(*types: str) -> Callable[[ShapeFunction], ShapeFunction]:
    """Register the decorated function as the shape function of GE node types."""

    def register(function: ShapeFunction) -> ShapeFunction:
        SHAPE_FUNCTIONS.update(dict.fromkeys(types, function))
        return function

    return register


def _symbols(shapes: Iterable[Sizes | None]) -> frozenset[str]:
    return frozenset(symbol for sizes in shapes for size in sizes or () for symbol in size.symbols)


class ShapeInference:
    """Infers outputs on demand, and caches the results."""

    def __init__(self, ops: Mapping[str, Any], input_info: Mapping[str, InputInfo]) -> None:
        self._ops = ops
        self._input_info = input_info
        self._cache: dict[str, Inferred] = {}
        infos = input_info.values()
        self._scalars = _symbols(info.value for info in infos) - _symbols(info.shape for info in infos)
        self.positive = frozenset[str]().union(*(info.positive for info in infos))

    def infer(self, reference: str) -> Inferred:
        """Infer an output, after the outputs that it depends on. Iterative, because graphs are deep."""
        stack = [reference]
        while stack:
            name, _, _ = stack[-1].rpartition(":")
            op = self._ops[name]
            if stack[-1] in self._cache:
                stack.pop()
                continue
            missing = [edge for edge in op.input if edge and not edge.endswith(":-1") and edge not in self._cache]
            if missing and op.type in SHAPE_FUNCTIONS:
                stack.extend(missing)
                continue
            self._infer_node(op)
            self._cache.setdefault(stack.pop(), UNKNOWN)
        return self._cache[reference]

    def forget(self, name: str) -> None:
        """Drop the cached results of a node that was changed."""
        for index in range(max(len(self._ops[name].output_desc), 1)):
            self._cache.pop(f"{name}:{index}", None)

    def _infer_node(self, op: Any) -> None:
        if op.type in ("Data", "RefData"):
            results: Inferred | list[Inferred] = self._infer_input(op)
        elif op.type in SHAPE_FUNCTIONS:
            references = [edge for edge in op.input if not edge.endswith(":-1")]
            inputs = zip((desc.name for desc in op.input_desc), references, strict=False)
            node = NodeContext(op, {name: self._cache[edge] for name, edge in inputs if edge}, self._scalars)
            try:
                results = SHAPE_FUNCTIONS[op.type](node)
            except (ArithmeticError, IndexError, TypeError, ValueError, struct.error):
                results = UNKNOWN  # an invalid node: the engine reports it
        else:
            results = UNKNOWN
        for index, result in enumerate(results if isinstance(results, list) else [results]):
            self._cache[f"{op.name}:{index}"] = result

    def _infer_input(self, op: Any) -> Inferred:
        desc = op.output_desc[0]
        dims = list(desc.shape.dim)
        info = self._input_info.get(op.name, InputInfo())
        shape = info.shape
        if shape is None and -2 not in dims and "origin_shape" not in desc.attr:
            shape = tuple(number(dim) if dim >= 0 else symbol(f"{op.name}[{axis}]") for axis, dim in enumerate(dims))
        return Inferred(OF_DESC.get(desc.dtype), shape, info.value)
