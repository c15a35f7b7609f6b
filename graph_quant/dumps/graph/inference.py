"""The result of inference: the type of every output of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...ge import UNDEFINED, Edge, Node
from ..errors import SizeError
from .shapes import DescType, TensorType


@dataclass
class Inference:
    """Types by node, disagreeing descs, and the reasons why nodes could not be inferred."""

    types: dict[str, tuple[TensorType, ...]] = field(default_factory=dict)
    disagreements: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    unknown_types: set[str] = field(default_factory=set)
    # Symbols that the inputs declare dynamic and a node fixes to a number: the number and the node.
    specialised: dict[str, tuple[int, str]] = field(default_factory=dict)
    # Symbols that must equal an expression of others, which a dump does not state.
    tied: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    # Nodes whose results exceed the limits of inference.
    too_large: dict[str, str] = field(default_factory=dict)
    # The inference of each called graph, by its name.
    inner: dict[str, Inference] = field(default_factory=dict)

    def type_of(self, edge: Edge) -> TensorType | None:
        """The type of the tensor on ``edge``; None if it is not connected."""
        types = self.types.get(edge.node, ())
        return types[edge.output] if edge.output < len(types) else None

    def input_types(self, node: Node) -> list[TensorType]:
        """The types of all connected inputs of ``node``."""
        return [tensor for tensor in map(self.type_of, node.inputs) if tensor is not None]

    def check_symbols(self, names: Iterable[str]) -> None:
        """Raise `SizeError` for a name that is not a symbol of the dump."""
        unknown = sorted(set(names) - set(self.symbols) - set(self.specialised) - set(self.tied))
        if unknown:
            raise SizeError(f"the dump has no symbol {unknown[0]}; it has {', '.join(self.symbols) or 'none'}")

    def add_disagreement(self, node: str, output: str, stated: str) -> None:
        """Record what a desc states instead of the inferred type, if anything."""
        if stated:
            self.disagreements.setdefault(node, []).append(f"{output}: desc says {stated}")


def compare_with_desc(inferred: TensorType, declared: DescType) -> str:
    """What a desc states that differs from the inferred type; empty if nothing."""
    wrong: list[str] = []
    if declared.dtype not in (UNDEFINED, inferred.dtype):
        wrong.append(declared.dtype)
    shape = inferred.shape
    if declared.dims is not None and shape is not None and not declared.is_size:
        known = [(a, b) for a, b in zip(declared.dims, shape, strict=False) if a >= 0 and isinstance(b, int)]
        if len(declared.dims) != len(shape) or any(a != b for a, b in known):
            wrong.append(f"[{', '.join(map(str, declared.dims))}]")
    return " ".join(wrong)
