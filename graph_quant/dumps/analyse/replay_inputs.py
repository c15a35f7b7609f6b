"""Inputs of a replay: checks those passed, and generates the rest from a seed so that the graph accepts them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from ...ge import INPUT_TYPES, TO_DESC, Node, from_desc
from ..errors import DumpError, MissingInputError, SizeError, TooLargeError
from ..graph.shapes import DescType, evaluate, read_desc, symbols_in

if TYPE_CHECKING:
    from ..dump import Dump

_SIZE_STEP = 8
_SCALES = {"scale", "scales", "smooth_scales", "pertoken_scale", "gamma"}
_LOOKUPS = {"Gather", "GatherV2", "EmbeddingDenseGrad", "GatherElements", "IndexByTensor"}
_VIEW_TYPES = {"Cast", "Reshape", "Identity", "Transpose", "Squeeze", "Unsqueeze"}


MOST_BYTES = 2 << 30


def make_inputs(
    dump: Dump,
    inputs: Mapping[str, torch.Tensor],
    sizes: Mapping[str, int],
    seed: int,
    most_bytes: int = MOST_BYTES,
) -> list[Any]:
    """Return the arguments of the graph in input order: tensors, and ints for sizes."""
    nodes = sorted(
        (node for node in dump.order if node.type in INPUT_TYPES), key=lambda node: node.proto.attr["index"].i
    )
    named = {node.name for node in nodes}
    if stray := sorted(set(inputs) - named):
        raise DumpError(f"{stray[0]} is not an input of the dump; its inputs are {', '.join(sorted(named))}")
    known = _SymbolSizes(dump, nodes, inputs, sizes)
    _check_memory(dump, known, set(inputs), most_bytes)
    generator = torch.Generator().manual_seed(seed)
    return [_make_argument(dump, node, inputs.get(node.name), known, generator) for node in nodes]


class _SymbolSizes:
    """The size of every symbol: passed, read from an input, fixed by the graph, or chosen."""

    def __init__(
        self, dump: Dump, nodes: list[Node], inputs: Mapping[str, torch.Tensor], sizes: Mapping[str, int]
    ) -> None:
        self.values: dict[str, int] = {name: size for name, (size, _) in dump.inference.specialised.items()}
        tied = dump.inference.tied
        dump.inference.check_symbols(sizes)
        self.values.update(sizes)
        for node in nodes:
            if node.name in inputs:
                self._learn(dump, node, inputs[node.name])
        for index, name in enumerate(dump.inference.symbols):
            self.values.setdefault(name, _SIZE_STEP * (index + 2))
        # In reverse order: an earlier one may be an expression of a later one.
        for name, text in reversed(tied.items()):
            size = evaluate(text, self.values)
            if sizes.get(name, size) != size:
                raise SizeError(f"{name} must be {text} in this graph, which is {size}, got {sizes[name]}")
            self.values[name] = size

    def _learn(self, dump: Dump, node: Node, tensor: torch.Tensor) -> None:
        declared = read_desc(node.proto.output_desc[0])
        if declared.is_size and declared.meta and declared.meta[0].isidentifier():
            self.values.setdefault(declared.meta[0], int(tensor.item()))
        for size, real in zip(dump.inference.types[node.name][0].shape or (), tensor.shape, strict=False):
            if not isinstance(size, int) and str(size) in dump.inference.symbols:
                self.values.setdefault(str(size), real)

    def knows(self, shape: tuple[Any, ...] | None) -> TypeGuard[tuple[Any, ...]]:
        """Whether all symbols of a shape are known; a size may depend on data."""
        names = (str(symbol) for size in shape or () if not isinstance(size, int) for symbol in size.free_symbols)
        return shape is not None and all(name in self.values for name in names)

    def of(self, shape: tuple[Any, ...]) -> tuple[int, ...]:
        """Evaluate a shape."""
        return tuple(size if isinstance(size, int) else self._number(size) for size in shape)

    def _number(self, size: Any) -> int:
        return int(size.xreplace({symbol: self.values[str(symbol)] for symbol in size.free_symbols}))

    def stated_size(self, declared: DescType) -> int:
        """The value of a size input."""
        text = (declared.meta or ("",))[0]
        return int(evaluate(text, {name: self.values[name] for name in symbols_in(text) if name in self.values}))


def _make_argument(
    dump: Dump, node: Node, tensor: torch.Tensor | None, sizes: _SymbolSizes, generator: torch.Generator
) -> Any:
    declared = read_desc(node.proto.output_desc[0])
    if declared.is_size:
        return int(tensor.item()) if tensor is not None else sizes.stated_size(declared)
    types = dump.inference.types[node.name]
    if not types or types[0].shape is None or not types[0].inferred:
        raise DumpError(
            f"{node.name}: the dump does not say what this input is: {dump.inference.failures.get(node.name, '')}"
        )
    shape, dtype = sizes.of(types[0].shape), from_desc(TO_DESC[types[0].dtype])
    if tensor is not None:
        if tensor.dtype != dtype or tuple(tensor.shape) != shape:
            got = f"{tensor.dtype} {tuple(tensor.shape)}"
            raise DumpError(f"{node.name} must be {dtype} {shape}, got {got}")
        return tensor
    return _generate(dump, node, sizes, (shape, dtype), generator)


def _check_memory(dump: Dump, sizes: _SymbolSizes, provided: set[str], most_bytes: int) -> None:
    """Raise `TooLargeError` if a result, or all generated inputs together, exceed the limit."""
    made_up = 0
    for node in dump.order:
        for tensor in dump.inference.types[node.name]:
            if not sizes.knows(tensor.shape) or not tensor.inferred or tensor.dtype not in TO_DESC:
                continue
            shape, dtype = sizes.of(tensor.shape), from_desc(TO_DESC[tensor.dtype])
            size = math.prod(shape) * dtype.itemsize
            made_up += size if node.type in INPUT_TYPES and node.name not in provided else 0
            if max(size, made_up) > most_bytes and node.name not in provided:
                what = f"{node.name} would be {str(dtype).removeprefix('torch.')}{list(shape)}"
                what = what if size > most_bytes else f"inputs would take {made_up} bytes up to {node.name}"
                limit = f"{most_bytes / (1 << 30):g} GiB"
                raise TooLargeError(f"{what}, more than {limit}; allow more memory or give smaller sizes")


def _generate(
    dump: Dump, node: Node, sizes: _SymbolSizes, kind: tuple[tuple[int, ...], torch.dtype], generator: torch.Generator
) -> torch.Tensor:
    shape, dtype = kind
    uses = _find_uses(dump, node)
    if dtype.is_floating_point:
        if any(name in _SCALES for _, name in uses):
            return (torch.rand(shape, generator=generator) * 0.9 + 0.1).to(dtype)
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    for reader, name in uses:
        if name == "group_index":
            rows = math.prod(_input_shape(dump, reader, "x", sizes)[:-1])
            return _group_ends(rows, shape, generator).to(dtype)
        if reader.type in _LOOKUPS and name == "indices":
            table = _input_shape(dump, reader, "x", sizes)
            return torch.randint(0, max(table[0], 1) if table else 1, shape, generator=generator).to(dtype)
    packed = any(reader.type == "Bitcast" for reader, _ in uses)
    if dtype in (torch.int8, torch.uint8) or packed:
        bounds = torch.iinfo(dtype)
        return torch.randint(bounds.min, bounds.max, shape, generator=generator, dtype=dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def _find_uses(dump: Dump, node: Node) -> list[tuple[Node, str]]:
    """The readers of an input and the names of their inputs, also through casts and views."""
    uses: list[tuple[Node, str]] = []
    frontier, seen = [node.name], {node.name}
    while frontier:
        for reader, position in dump.consumers[frontier.pop()]:
            uses.append((reader, reader.inputs[position].name))
            if reader.type in _VIEW_TYPES and position == 0 and reader.name not in seen:
                seen.add(reader.name)
                frontier.append(reader.name)
    return uses


def _input_shape(dump: Dump, reader: Node, name: str, sizes: _SymbolSizes) -> tuple[int, ...]:
    """The shape of the input ``name`` of ``reader``."""
    edge = next((edge for edge in reader.inputs if edge.name == name and edge.node), None)
    read = dump.inference.type_of(edge) if edge else None
    if read is None or read.shape is None:
        raise MissingInputError(f"{reader.name}: the shape of {name} is not known, so no input can be made")
    return sizes.of(read.shape)


def _group_ends(rows: int, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random ascending ends of groups of rows; the last is the row count."""
    groups = math.prod(shape)
    if groups == 0:
        return torch.zeros(shape, dtype=torch.int64)
    if groups <= rows:
        inner = torch.randperm(rows - 1, generator=generator)[: groups - 1].sort().values + 1
    else:
        inner = torch.randint(0, rows + 1, (groups - 1,), generator=generator).sort().values
    return torch.cat([inner, torch.tensor([rows])]).reshape(shape)
