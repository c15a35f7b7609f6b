"""Infers dtype and shape of every output by running the host's kernels on fake tensors with the dump's symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import _disable_current_modes

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, UNDEFINED, Node, TooMuchError, find_unsupported
from ...host.kernels import InputState, choose_kernel, is_constant_folded
from .fake_tensors import FakeExecutor, Value, needs_data
from .inference import Inference, compare_with_desc
from .shapes import DescType, MemoryLayout, TensorType, read_desc
from .subgraph_wiring import map_inputs, map_outputs
from .symbolic import without_export

if TYPE_CHECKING:
    from ..dump import Dump

Progress = Callable[[float], None]

_MOST_NODES_TO_RETRY = 20_000
_MOST_SETTLED = 6
_MOST_TRIALS = 24


def infer(dump: Dump, progress: Progress | None = None) -> Inference:
    """Run every node of ``dump`` on fake tensors; equal type, attributes and inputs run once."""
    with without_export():
        return _infer_with_retries(dump, progress)


def _infer_with_retries(dump: Dump, progress: Progress | None) -> Inference:
    """Infer, and repeat for each symbol whose size follows from a rejected node."""
    result = _infer_once(dump, dump.order, {}, progress)
    if len(dump.order) > _MOST_NODES_TO_RETRY:
        return result
    settled: dict[str, int | str] = {}
    specialised: dict[str, tuple[int, str]] = {}
    while result.refused and len(settled) < _MOST_SETTLED:
        solution = _settle_symbol(dump, result, settled)
        if solution is None:
            break
        name, size, better = solution
        settled[name] = size
        if isinstance(size, int):
            specialised[name] = (size, result.refused[0])
        result = better
    result.specialised = specialised
    result.tied = {name: size for name, size in settled.items() if isinstance(size, str)}
    return result


def _settle_symbol(
    dump: Dump, result: Inference, settled: dict[str, int | str]
) -> tuple[str, int | str, Inference] | None:
    """Find a symbol and a size for it with which the first rejected node accepts its inputs."""
    node = dump.nodes[result.refused[0]]
    sizes: list[Any] = []
    for edge in node.inputs:
        read = result.type_of(edge)
        sizes += [*((read and read.shape) or ()), *result.values.get(edge.node, ())]
    until_it = dump.order[: dump.position[node.name] + 1]
    for name, size in islice(_candidate_sizes(sizes), _MOST_TRIALS):
        guess = {**settled, name: size}
        if not _infer_once(dump, until_it, guess, None).refused:
            attempt = _infer_once(dump, dump.order, guess, None)
            if len(attempt.refused) < len(result.refused):
                return name, size, attempt
    return None


def _candidate_sizes(sizes: list[Any]) -> Iterator[tuple[str, int | str]]:
    """Candidate sizes of each symbol: the numbers among ``sizes``, then expressions of the other symbols."""
    numbers = sorted({size for size in sizes if isinstance(size, int) and size > 1}, reverse=True)
    expressions = {
        str(size): {str(symbol) for symbol in size.free_symbols} for size in sizes if hasattr(size, "free_symbols")
    }
    yield from product(sorted(set().union(*expressions.values())), numbers)
    alone = [name for name, symbols in expressions.items() if symbols == {name}]
    # Try later inputs first: they are usually parameters that must match the first one.
    for name, (text, symbols) in product(reversed(alone), expressions.items()):
        if name not in symbols:
            yield name, text


def _infer_once(
    dump: Dump, order: Sequence[Node], settled: dict[str, int | str], progress: Progress | None
) -> Inference:
    run = _GraphInference(dump, order, FakeExecutor(settled))
    # The caller may be tracing, but constants are evaluated with real tensors.
    with _disable_current_modes():
        for number, node in enumerate(order):
            run.visit(node)
            if progress and number % 512 == 0:
                progress(number / len(order))
    symbols = sorted(set(run.executor.symbols.values) - set(settled))
    _share_symbols(run.result, symbols)
    return run.result


def _share_symbols(result: Inference, symbols: list[str]) -> None:
    result.symbols = symbols
    for inner in result.inner.values():
        _share_symbols(inner, symbols)


class _GraphInference:
    """The inference of one graph; ``fed`` are its input values if a node of another graph calls it."""

    def __init__(
        self, dump: Dump, order: Sequence[Node], executor: FakeExecutor, fed: dict[str, Value | None] | None = None
    ) -> None:
        self.executor = executor
        self.result = Inference()
        self._dump = dump
        self._fed = fed or {}
        self._constants = {node.name for node in order if node.type in CONST_TYPES}
        self._outputs: dict[str, tuple[Value | None, ...]] = {}
        self._with_layouts: dict[tuple[int, MemoryLayout], TensorType] = {}

    def visit(self, node: Node) -> None:
        values: tuple[Value | None, ...] = ()
        if node.name in self._dump.calls:
            values = self._call_subgraphs(node)
        elif node.type in OUTSIDE_TYPES:
            values = self._try(node, lambda: (self._fed.get(node.name) or self.executor.input_value(node),))
        elif node.type in CONST_TYPES:
            values = self._try(node, lambda: (self.executor.constant_value(node),))
        elif node.type not in END_TYPES:
            values = self._try(node, lambda: self._run_kernel(node))
        if self._dump.trusts_descs:
            values = self._reconcile(node, values)
        self._record(node, values)

    def _call_subgraphs(self, node: Node) -> tuple[Value | None, ...]:
        """The results of the called graphs: of branches, those that agree; of a loop, the body's."""
        results: list[tuple[Value | None, ...]] = []
        for call in self._dump.calls[node.name]:
            fed = {inner: self._input_value(node, index) for inner, index in map_inputs(call.graph, node).items()}
            run = _GraphInference(call.graph, call.graph.order, self.executor, fed)
            for inner in call.graph.order:
                run.visit(inner)
            self.result.inner[call.graph.name] = run.result
            if call.role != "cond":
                results.append(run._results_for_caller())
        width = min(map(len, results), default=0)
        return tuple(
            results[0][index] if len({id(result[index]) for result in results}) == 1 else None for index in range(width)
        )

    def _input_value(self, node: Node, index: int) -> Value | None:
        edge = node.inputs[index] if index < len(node.inputs) else None
        produced = self._outputs.get(edge.node, ()) if edge else ()
        return produced[edge.output] if edge and edge.output < len(produced) else None

    def _results_for_caller(self) -> tuple[Value | None, ...]:
        """The results of this graph in the order of its caller's outputs."""
        outputs: dict[int, Value | None] = {}
        for end in (node for node in self._dump.order if node.type in END_TYPES):
            for index, output in map_outputs(end).items():
                outputs[output] = self._input_value(end, index)
        return tuple(outputs.get(index) for index in range(max(outputs, default=-1) + 1))

    def _try(self, node: Node, compute: Callable[[], tuple[Value, ...]]) -> tuple[Value | None, ...]:
        try:
            return compute()
        except Exception as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            if isinstance(error, TooMuchError):
                self.result.too_large[node.name] = reason
            # With trusted descs a kernel only adds symbols to them; it may fail.
            if not self._dump.trusts_descs:
                self.result.failures[node.name] = reason
            return ()

    def _run_kernel(self, node: Node) -> tuple[Value, ...]:
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
            values = self.executor.call(node, kernel, inputs, fold=fold)
        except Exception as error:
            if not needs_data(error) and not self._dump.trusts_descs:
                self.result.refused.append(node.name)
            raise
        if fold:
            self._constants.add(node.name)
        return values

    def _reconcile(self, node: Node, values: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        """Prefer the stated types, but keep an inferred value that is consistent, as it has symbols."""
        reconciled: list[Value | None] = []
        for index, desc in enumerate(node.proto.output_desc):
            declared = read_desc(desc)
            value = values[index] if index < len(values) else None
            if value is None or not _is_consistent(value.type, declared):
                value = self._value_of_desc(node, declared)
            reconciled.append(value)
        return tuple(reconciled)

    def _record(self, node: Node, values: tuple[Value | None, ...]) -> None:
        completed = list(values)
        types = [value.type for value in values if value is not None]
        for index, desc in enumerate(node.proto.output_desc):
            declared = read_desc(desc)
            if index < len(types):
                self._compare(node, desc.name or f"output {index}", types[index], declared)
                types[index] = self._with_layout(types[index], declared.layout)
                continue
            completed.append(self._value_of_desc(node, declared))
            last = completed[-1]
            found_type = last.type if last else TensorType(declared.dtype, declared.dims, inferred=False)
            types.append(self._with_layout(found_type, declared.layout))
        self._outputs[node.name] = tuple(completed)
        self.result.types[node.name] = tuple(types)
        first = values[0] if values else None
        if first is not None and first.items is not None:
            self.result.values[node.name] = first.items

    def _with_layout(self, tensor: TensorType, layout: MemoryLayout) -> TensorType:
        """The type with its layout, interned."""
        if layout == tensor.layout:
            return tensor
        key = (id(tensor), layout)
        if key not in self._with_layouts:
            self._with_layouts[key] = replace(tensor, layout=layout)
        return self._with_layouts[key]

    def _value_of_desc(self, node: Node, declared: DescType) -> Value | None:
        """The value that a desc states, if nothing was inferred."""
        if declared.dtype == UNDEFINED or (declared.dims is None and declared.meta is None):
            return None
        try:
            return self.executor.desc_value(node.name, declared)
        except Exception:
            return None

    def _compare(self, node: Node, name: str, inferred: TensorType, declared: DescType) -> None:
        if not self._dump.trusts_descs:
            self.result.add_disagreement(node.name, name, compare_with_desc(inferred, declared))


def _is_consistent(inferred: TensorType, declared: DescType) -> bool:
    """Whether an inferred type is consistent with the known parts of a desc."""
    if declared.dtype not in (UNDEFINED, inferred.dtype):
        return False
    if declared.dims is None or inferred.shape is None:
        return True
    return len(declared.dims) == len(inferred.shape) and all(
        size < 0 or not isinstance(own, int) or size == own
        for size, own in zip(declared.dims, inferred.shape, strict=True)
    )
