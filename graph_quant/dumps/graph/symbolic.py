"""The dump's symbols as torch's symbolic integers, and back as sympy expressions under the dump's own names."""

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

from .shapes import Dim, Stated, evaluate, symbols_in


@contextmanager
def without_export() -> Iterator[None]:
    """Keep symbols from loading torch.export, which they want only to leave its files out of what they log."""
    files = symbolic_shapes.uninteresting_files
    if "torch.export._trace" not in sys.modules:
        symbolic_shapes.uninteresting_files = set  # type: ignore[assignment]
    try:
        yield
    finally:
        symbolic_shapes.uninteresting_files = files


class Symbols:
    """Every symbol gets its own example size, a multiple of 64: kernels then tell symbols apart and can pack int4.

    ``settled`` symbols are known beforehand, as a number or as an expression of others.
    """

    def __init__(self, settled: Mapping[str, int | str] | None = None) -> None:
        self.env = ShapeEnv()
        self.values: dict[str, Any] = {}
        self._names: dict[sympy.Symbol, sympy.Symbol] = {}
        self._shown: dict[sympy.Expr, Dim] = {}
        # The last one settled first: an earlier one may be an expression of it, never the other way round.
        for name, size in reversed(list((settled or {}).items())):
            self.values[name] = self.expression(size) if isinstance(size, str) else size

    def named(self, name: str) -> Any:
        """The symbolic integer called ``name`` in the dump."""
        if name not in self.values:
            example = 64 * sympy.prime(len(self.values) + 2)
            source = ConstantSource(f"dump_symbol_{len(self.values)}")
            symbol = self.env.create_symbol(example, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
            self._names[symbol] = sympy.Symbol(name, integer=True, positive=True)
            self.values[name] = self.env.create_symintnode(symbol, hint=example, source=source)
        return self.values[name]

    def sizes(self, node: str, described: Stated) -> tuple[Any, ...]:
        """The shape of a graph input: symbols from its meta, fresh ones where only -1 is known."""
        dims, meta = described.dims, described.meta
        if described.is_size:
            return ()
        if meta is None or (dims is not None and len(dims) != len(meta)):
            return tuple(size if size >= 0 else self.named(f"{node}.{axis}") for axis, size in enumerate(dims or ()))
        known = [self.expression(text) for text in meta]
        if dims is None or all(
            dim < 0 or isinstance(size, torch.SymInt) or size == dim for size, dim in zip(known, dims, strict=True)
        ):
            return tuple(known)
        # The meta is the view that torch sees, the desc the memory behind it: for a transposed weight they differ.
        symbolic = [size for size in known if isinstance(size, torch.SymInt)]
        return tuple(dim if dim >= 0 or not symbolic else symbolic.pop() for dim in dims)

    def expression(self, text: str) -> Any:
        """A size of the dump as a number or a symbolic integer."""
        for name in symbols_in(text):
            self.named(name)
        return evaluate(text, self.values)

    def dim(self, size: Any) -> Dim:
        """A size of a fake tensor as an int, or as an expression over the dump's names."""
        if not isinstance(size, torch.SymInt):
            return size
        expression = size.node.expr
        if expression not in self._shown:
            shown = sympy.sympify(expression).xreplace(self._names)
            self._shown[expression] = int(shown) if shown.is_number else shown
        return self._shown[expression]
