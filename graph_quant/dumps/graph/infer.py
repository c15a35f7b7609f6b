"""The dtype and shape of every output: the host's kernels run on fake tensors, with the dump's own symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from ...ge import dtypes
from ...ge.graph import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, Edge, Node
from ...ge.sizes import TooMuchError
from ...host.kernels.choice import Fed, choose, is_folded
from ..errors import DumpError
from .fakes import Fakes, Value, is_open_question
from .shapes import Stated, TensorType, stated, symbols_in

if TYPE_CHECKING:
    from ..dump import Dump

Progress = Callable[[float], None]

_MOST_NODES_TO_RETRY = 20_000
_MOST_SETTLED = 6
_MOST_TRIALS = 24
_MOST_SYMBOLS = 512


@dataclass
class Inference:
    """Types by node, where the descs disagree with them, and why a node could not be inferred."""

    types: dict[str, tuple[TensorType, ...]] = field(default_factory=dict)
    disagreements: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    unknown_types: set[str] = field(default_factory=set)
    # Symbols that the graph declares dynamic and then takes for a number, and the node that does.
    baked: dict[str, tuple[int, str]] = field(default_factory=dict)
    # Symbols that can only be what an expression of others says, which a dump does not state.
    tied: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    # Nodes that ask for more than is ever computed.
    cut: list[str] = field(default_factory=list)

    def of(self, edge: Edge) -> TensorType | None:
        """The type of what comes in over ``edge``; None where nothing does."""
        types = self.types.get(edge.node, ())
        return types[edge.output] if edge.output < len(types) else None

    def reads(self, node: Node) -> list[TensorType]:
        """The types of everything that ``node`` is fed."""
        return [found for found in map(self.of, node.inputs) if found is not None]


def infer(dump: Dump, progress: Progress | None = None) -> Inference:
    """Run every node of ``dump`` once on fake tensors; nodes alike in type, attributes and inputs are run together."""
    _check_symbols(dump)
    result = _infer(dump.order, {}, progress)
    if len(dump.order) > _MOST_NODES_TO_RETRY:
        return result
    settled: dict[str, int | str] = {}
    baked: dict[str, tuple[int, str]] = {}
    while result.refused and len(settled) < _MOST_SETTLED:
        found = _settle(dump, result, settled)
        if found is None:
            break
        name, size, better = found
        settled[name] = size
        if isinstance(size, int):
            baked[name] = (size, result.refused[0])
        result = better
    result.baked = baked
    result.tied = {name: size for name, size in settled.items() if isinstance(size, str)}
    return result


def _check_symbols(dump: Dump) -> None:
    """Refuse a dump with more symbols than a graph has; each one costs milliseconds."""
    names: set[str] = set()
    for node in dump.order:
        for desc in node.proto.output_desc if node.type in INPUT_TYPES else ():
            described = stated(desc)
            texts = described.meta or [f"{node.name}_{at}" for at, size in enumerate(described.dims or ()) if size < 0]
            names.update(name for text in texts for name in symbols_in(text))
    if len(names) > _MOST_SYMBOLS:
        raise DumpError(f"its inputs have {len(names)} symbols for sizes; up to {_MOST_SYMBOLS} can be followed")


def _settle(dump: Dump, result: Inference, settled: dict[str, int | str]) -> tuple[str, int | str, Inference] | None:
    """A symbol, and the number or expression that makes the first refusing node accept its inputs."""
    node = dump.nodes[result.refused[0]]
    sizes: list[Any] = []
    for edge in node.inputs:
        read = result.of(edge)
        sizes += [*((read and read.shape) or ()), *result.values.get(edge.node, ())]
    until_it = dump.order[: dump.position[node.name] + 1]
    for name, size in islice(_guesses(sizes), _MOST_TRIALS):
        guess = {**settled, name: size}
        if not _infer(until_it, guess, None).refused:
            attempt = _infer(dump.order, guess, None)
            if len(attempt.refused) < len(result.refused):
                return name, size, attempt
    return None


def _guesses(sizes: list[Any]) -> Iterator[tuple[str, int | str]]:
    """What a symbol among ``sizes`` might have to be: a number beside it, or an expression of the other symbols."""
    numbers = sorted({size for size in sizes if isinstance(size, int) and size > 1}, reverse=True)
    expressions = {
        str(size): {str(symbol) for symbol in size.free_symbols} for size in sizes if hasattr(size, "free_symbols")
    }
    yield from product(sorted(set().union(*expressions.values())), numbers)
    alone = [name for name, symbols in expressions.items() if symbols == {name}]
    # The last input is rather the parameter that has to fit than the tensor it has to fit.
    for name, (text, symbols) in product(reversed(alone), expressions.items()):
        if name not in symbols:
            yield name, text


def _infer(order: Sequence[Node], settled: dict[str, int | str], progress: Progress | None) -> Inference:
    run = _Run(order, settled)
    for number, node in enumerate(order):
        run.visit(node)
        if progress and number % 512 == 0:
            progress(number / len(order))
    run.result.symbols = sorted(set(run.fakes.symbols.values) - set(settled))
    return run.result


class _Run:
    def __init__(self, order: Sequence[Node], settled: dict[str, int | str]) -> None:
        self.fakes = Fakes(settled)
        self.result = Inference()
        self._constants = {node.name for node in order if node.type in CONST_TYPES}
        self._outputs: dict[str, tuple[Value | None, ...]] = {}

    def visit(self, node: Node) -> None:
        found: tuple[Value | None, ...] = ()
        if node.type in INPUT_TYPES:
            found = self._attempt(node, lambda: (self.fakes.graph_input(node),))
        elif node.type in CONST_TYPES:
            found = self._attempt(node, lambda: (self.fakes.constant(node),))
        elif node.type != OUTPUT_TYPE:
            found = self._attempt(node, lambda: self._call(node))
        self._record(node, found)

    def _attempt(self, node: Node, compute: Callable[[], tuple[Value, ...]]) -> tuple[Value | None, ...]:
        try:
            return compute()
        except Exception as error:
            if isinstance(error, TooMuchError):
                self.result.cut.append(node.name)
            lines = str(error).strip().splitlines()
            self.result.failures[node.name] = lines[0] if lines else type(error).__name__
            return ()

    def _call(self, node: Node) -> tuple[Value, ...]:
        inputs: dict[str, Value] = {}
        fed: dict[str, Fed] = {}
        for edge in node.inputs:
            if not edge.node:
                continue
            produced = self._outputs[edge.node]
            value = produced[edge.output] if edge.output < len(produced) else None
            if value is None:
                raise ValueError(f"its input {edge.name} has no known type")
            inputs[edge.name] = value
            rank = len(value.type.shape or ()) if edge.node in self._constants else None
            fed[edge.name] = Fed(value.items is not None, rank)
        kernel = choose(node.type, fed)
        fold = is_folded(node.type, fed)
        if kernel is None:
            self.result.unknown_types.add(node.type)
            raise ValueError(f"the host has no kernel for {node.type}")
        try:
            found = self.fakes.call(node, kernel, inputs, fold=fold)
        except Exception as error:
            if not is_open_question(error):
                self.result.refused.append(node.name)
            raise
        if fold:
            self._constants.add(node.name)
        return found

    def _record(self, node: Node, found: tuple[Value | None, ...]) -> None:
        values = list(found)
        types = [value.type for value in found if value is not None]
        for index, desc in enumerate(node.proto.output_desc):
            described = stated(desc)
            if index < len(types):
                self._compare(node, desc.name or f"output {index}", types[index], described)
                continue
            values.append(self._attempt_stated(node, described))
            last = values[-1]
            types.append(last.type if last else TensorType(described.dtype, described.dims, inferred=False))
        self._outputs[node.name] = tuple(values)
        self.result.types[node.name] = tuple(types)
        first = found[0] if found else None
        if first is not None and first.items is not None:
            self.result.values[node.name] = first.items

    def _attempt_stated(self, node: Node, described: Stated) -> Value | None:
        """What a desc states, where nothing better is known."""
        if described.dtype == dtypes.UNDEFINED or (described.dims is None and described.meta is None):
            return None
        try:
            return self.fakes.described(node.name, described)
        except Exception:
            return None

    def _compare(self, node: Node, name: str, found: TensorType, described: Stated) -> None:
        wrong: list[str] = []
        if described.dtype not in (dtypes.UNDEFINED, found.dtype):
            wrong.append(described.dtype)
        shape = found.shape
        if described.dims is not None and shape is not None and not described.is_size:
            known = [(a, b) for a, b in zip(described.dims, shape, strict=False) if a >= 0 and isinstance(b, int)]
            if len(described.dims) != len(shape) or any(a != b for a, b in known):
                wrong.append(f"[{', '.join(map(str, described.dims))}]")
        if wrong:
            self.result.disagreements.setdefault(node.name, []).append(f"{name}: desc says {' '.join(wrong)}")
