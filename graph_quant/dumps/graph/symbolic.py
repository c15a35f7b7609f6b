"""Converts the symbols of a dump to torch's symbolic integers, and back to sympy expressions with the dump's names."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from .shapes import DescType, Dim, evaluate, symbols_in


@contextmanager
def without_export() -> Iterator[None]:
    """Keep ShapeEnv from importing torch.export, whose file names it only needs for filtering its log."""
    files = symbolic_shapes.uninteresting_files
    if "torch.export._trace" not in sys.modules:
        symbolic_shapes.uninteresting_files = set  # type: ignore[assignment]
    try:
        yield
    finally:
        symbolic_shapes.uninteresting_files = files


class Symbols:
    """The symbols of one dump. Every symbol has a distinct hint, a multiple of 64, so that int4 can be packed.

    ``settled`` symbols are known beforehand, as a number or as an expression of others.
    """

    def __init__(self, settled: Mapping[str, int | str] | None = None) -> None:
        self.env = ShapeEnv()
        self.values: dict[str, Any] = {}
        self._names: dict[sympy.Symbol, sympy.Symbol] = {}
        self._shown: dict[sympy.Expr, Dim] = {}
        # In reverse order of settling: an earlier one may be an expression of a later one.
        for name, size in reversed(list((settled or {}).items())):
            self.values[name] = self.expression(size) if isinstance(size, str) else size

    def symbol(self, name: str) -> Any:
        """The symbolic integer named ``name`` in the dump."""
        if name not in self.values:
            example = 64 * sympy.prime(len(self.values) + 2)
            source = ConstantSource(f"dump_symbol_{len(self.values)}")
            symbol = self.env.create_symbol(example, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
            self._names[symbol] = sympy.Symbol(name, integer=True, positive=True)
            self.values[name] = self.env.create_symintnode(symbol, hint=example, source=source)
        return self.values[name]

    def input_shape(self, node: str, declared: DescType) -> tuple[Any, ...]:
        """The shape of a graph input: symbols from its meta, new symbols for sizes of -1."""
        dims, meta = declared.dims, declared.meta
        if declared.is_size:
            return ()
        if meta is None or (dims is not None and len(dims) != len(meta)):
            return tuple(size if size >= 0 else self.symbol(f"{node}.{axis}") for axis, size in enumerate(dims or ()))
        known = [self.expression(text) for text in meta]
        if dims is None or all(
            dim < 0 or isinstance(size, torch.SymInt) or size == dim for size, dim in zip(known, dims, strict=True)
        ):
            return tuple(known)
        # The meta describes the view, the desc the memory: for a transposed weight they differ.
        symbolic = [size for size in known if isinstance(size, torch.SymInt)]
        return tuple(dim if dim >= 0 or not symbolic else symbolic.pop() for dim in dims)

    def expression(self, text: str) -> Any:
        """Evaluate a size expression to a number or a symbolic integer."""
        for name in symbols_in(text):
            self.symbol(name)
        return evaluate(text, self.values)

    def dim(self, size: Any) -> Dim:
        """Convert a size of a fake tensor to an int or an expression over the dump's names."""
        if not isinstance(size, torch.SymInt):
            return size
        expression = size.node.expr
        if expression not in self._shown:
            shown = sympy.sympify(expression).xreplace(self._names)
            self._shown[expression] = int(shown) if shown.is_number else shown
        return self._shown[expression]
