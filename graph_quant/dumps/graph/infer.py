"""The dtype and shape of every output: the host's kernels run on fake tensors, with the dump's own symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import _disable_current_modes

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, UNDEFINED, Edge, Node, TooMuchError, find_unsupported
from ...host.kernels import InputState, choose_kernel, is_constant_folded
from .fake_tensors import Fakes, Value, is_open_question
from .shapes import MemoryLayout, Stated, TensorType, stated
from .subgraph_wiring import parameters, returned_places
from .symbolic import without_export

if TYPE_CHECKING:
    from ..dump import Dump

Progress = Callable[[float], None]

_MOST_NODES_TO_RETRY = 20_000
_MOST_SETTLED = 6
_MOST_TRIALS = 24


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
    cut: dict[str, str] = field(default_factory=dict)
    # The same of the graphs that nodes call, by the name of the graph.
    inner: dict[str, Inference] = field(default_factory=dict)

    def of(self, edge: Edge) -> TensorType | None:
        """The type of what comes in over ``edge``; None where nothing does."""
        types = self.types.get(edge.node, ())
        return types[edge.output] if edge.output < len(types) else None

    def reads(self, node: Node) -> list[TensorType]:
        """The types of everything that ``node`` is fed."""
        return [found for found in map(self.of, node.inputs) if found is not None]


def infer(dump: Dump, progress: Progress | None = None) -> Inference:
    """Run every node of ``dump`` once on fake tensors; nodes alike in type, attributes and inputs are run together."""
    with without_export():
        return _infer_again(dump, progress)


def _infer_again(dump: Dump, progress: Progress | None) -> Inference:
    """Infer, and once more for each symbol that a node settled."""
    result = _infer(dump, dump.order, {}, progress)
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
        if not _infer(dump, until_it, guess, None).refused:
            attempt = _infer(dump, dump.order, guess, None)
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


def _infer(dump: Dump, order: Sequence[Node], settled: dict[str, int | str], progress: Progress | None) -> Inference:
    run = _Run(dump, order, Fakes(settled))
    # Whoever asks may be tracing, and the numbers of constants are read here.
    with _disable_current_modes():
        for number, node in enumerate(order):
            run.visit(node)
            if progress and number % 512 == 0:
                progress(number / len(order))
    symbols = sorted(set(run.fakes.symbols.values) - set(settled))
    _share_symbols(run.result, symbols)
    return run.result


def _share_symbols(result: Inference, symbols: list[str]) -> None:
    result.symbols = symbols
    for inner in result.inner.values():
        _share_symbols(inner, symbols)


class _Run:
    """One graph; ``fed`` are the values of its inputs where a node of another graph calls it."""

    def __init__(
        self, dump: Dump, order: Sequence[Node], fakes: Fakes, fed: dict[str, Value | None] | None = None
    ) -> None:
        self.fakes = fakes
        self.result = Inference()
        self._dump = dump
        self._fed = fed or {}
        self._constants = {node.name for node in order if node.type in CONST_TYPES}
        self._outputs: dict[str, tuple[Value | None, ...]] = {}
        self._laid_out: dict[tuple[int, MemoryLayout], TensorType] = {}

    def visit(self, node: Node) -> None:
        found: tuple[Value | None, ...] = ()
        if node.name in self._dump.calls:
            found = self._enter(node)
        elif node.type in OUTSIDE_TYPES:
            found = self._attempt(node, lambda: (self._fed.get(node.name) or self.fakes.graph_input(node),))
        elif node.type in CONST_TYPES:
            found = self._attempt(node, lambda: (self.fakes.constant(node),))
        elif node.type not in END_TYPES:
            found = self._attempt(node, lambda: self._call(node))
        if self._dump.trusts_descs:
            found = self._reconcile(node, found)
        self._record(node, found)

    def _enter(self, node: Node) -> tuple[Value | None, ...]:
        """The results of the graphs that a node calls: of several branches, where they agree; of a loop, the body's."""
        results: list[tuple[Value | None, ...]] = []
        for call in self._dump.calls[node.name]:
            fed = {inner: self._fed_by(node, place) for inner, place in parameters(call.graph, node).items()}
            run = _Run(call.graph, call.graph.order, self.fakes, fed)
            for inner in call.graph.order:
                run.visit(inner)
            self.result.inner[call.graph.name] = run.result
            if call.role != "cond":
                results.append(run._returned())
        width = min(map(len, results), default=0)
        return tuple(
            results[0][place] if len({id(each[place]) for each in results}) == 1 else None for place in range(width)
        )

    def _fed_by(self, node: Node, place: int) -> Value | None:
        edge = node.inputs[place] if place < len(node.inputs) else None
        produced = self._outputs.get(edge.node, ()) if edge else ()
        return produced[edge.output] if edge and edge.output < len(produced) else None

    def _returned(self) -> tuple[Value | None, ...]:
        """What comes out of this graph, in the order of its caller's outputs."""
        found: dict[int, Value | None] = {}
        for end in (node for node in self._dump.order if node.type in END_TYPES):
            for place, output in returned_places(end).items():
                found[output] = self._fed_by(end, place)
        return tuple(found.get(place) for place in range(max(found, default=-1) + 1))

    def _attempt(self, node: Node, compute: Callable[[], tuple[Value, ...]]) -> tuple[Value | None, ...]:
        try:
            return compute()
        except Exception as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            if isinstance(error, TooMuchError):
                self.result.cut[node.name] = reason
            # Where descs are trusted, a kernel only adds to them; one that cannot is no failure.
            if not self._dump.trusts_descs:
                self.result.failures[node.name] = reason
            return ()

    def _call(self, node: Node) -> tuple[Value, ...]:
        inputs: dict[str, Value] = {}
        fed: dict[str, InputState] = {}
        for edge in node.inputs:
            if not edge.node:
                continue
            produced = self._outputs[edge.node]
            value = produced[edge.output] if edge.output < len(produced) else None
            if value is None:
                raise ValueError(f"its input {edge.name} has no known type")
            inputs[edge.name] = value
            rank = len(value.type.shape or ()) if edge.node in self._constants else None
            fed[edge.name] = InputState(value.items is not None, rank)
        kernel = choose_kernel(node.type, fed)
        fold = is_constant_folded(node.type, fed)
        if kernel is None:
            if not self._dump.trusts_descs:
                self.result.unknown_types.add(node.type)
            raise ValueError(f"the host has no kernel for {node.type}")
        if passed_over := find_unsupported(node, kernel):
            raise ValueError(f"the host does not compute {', '.join(passed_over)}")
        try:
            found = self.fakes.call(node, kernel, inputs, fold=fold)
        except Exception as error:
            if not is_open_question(error) and not self._dump.trusts_descs:
                self.result.refused.append(node.name)
            raise
        if fold:
            self._constants.add(node.name)
        return found

    def _reconcile(self, node: Node, found: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        """What the descs state, with the symbols of what the kernels say where the two agree."""
        values: list[Value | None] = []
        for place, desc in enumerate(node.proto.output_desc):
            described = stated(desc)
            value = found[place] if place < len(found) else None
            if value is None or not _agree(value.type, described):
                value = self._attempt_stated(node, described)
            values.append(value)
        return tuple(values)

    def _record(self, node: Node, found: tuple[Value | None, ...]) -> None:
        values = list(found)
        types = [value.type for value in found if value is not None]
        for index, desc in enumerate(node.proto.output_desc):
            described = stated(desc)
            if index < len(types):
                self._compare(node, desc.name or f"output {index}", types[index], described)
                types[index] = self._kept_as(types[index], described.layout)
                continue
            values.append(self._attempt_stated(node, described))
            last = values[-1]
            found_type = last.type if last else TensorType(described.dtype, described.dims, inferred=False)
            types.append(self._kept_as(found_type, described.layout))
        self._outputs[node.name] = tuple(values)
        self.result.types[node.name] = tuple(types)
        first = found[0] if found else None
        if first is not None and first.items is not None:
            self.result.values[node.name] = first.items

    def _kept_as(self, found: TensorType, layout: MemoryLayout) -> TensorType:
        """The type with its layout; one object for equal ones."""
        if layout == found.layout:
            return found
        key = (id(found), layout)
        if key not in self._laid_out:
            self._laid_out[key] = replace(found, layout=layout)
        return self._laid_out[key]

    def _attempt_stated(self, node: Node, described: Stated) -> Value | None:
        """What a desc states, where nothing better is known."""
        if described.dtype == UNDEFINED or (described.dims is None and described.meta is None):
            return None
        try:
            return self.fakes.described(node.name, described)
        except Exception:
            return None

    def _compare(self, node: Node, name: str, found: TensorType, described: Stated) -> None:
        wrong: list[str] = []
        if self._dump.trusts_descs:
            return
        if described.dtype not in (UNDEFINED, found.dtype):
            wrong.append(described.dtype)
        shape = found.shape
        if described.dims is not None and shape is not None and not described.is_size:
            known = [(a, b) for a, b in zip(described.dims, shape, strict=False) if a >= 0 and isinstance(b, int)]
            if len(described.dims) != len(shape) or any(a != b for a, b in known):
                wrong.append(f"[{', '.join(map(str, described.dims))}]")
        if wrong:
            self.result.disagreements.setdefault(node.name, []).append(f"{name}: desc says {' '.join(wrong)}")


def _agree(found: TensorType, described: Stated) -> bool:
    """Whether what a kernel says is what a desc states, as far as that goes."""
    if described.dtype not in (UNDEFINED, found.dtype):
        return False
    if described.dims is None or found.shape is None:
        return True
    return len(described.dims) == len(found.shape) and all(
        size < 0 or not isinstance(own, int) or size == own
        for size, own in zip(described.dims, found.shape, strict=True)
    )
