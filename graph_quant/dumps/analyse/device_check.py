"""Recomputes every node on the host from the device's inputs and finds the first wrong result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ... import chip
from ...ge import (
    CONST_TYPES,
    END_TYPES,
    OUTSIDE_TYPES,
    Edge,
    Node,
    Sizes,
    decode_attribute,
    decode_tensor,
    to_sizes,
    to_tensor,
)
from ...host.kernels import LONGEST_SIZES, InputState, Kernel, choose_kernel
from ..errors import DumpError
from ..read.device_data import DeviceData, to_file_name
from .tensor_verdict import Verdict, compare_tensors

if TYPE_CHECKING:
    from ..dump import Dump


@dataclass(frozen=True)
class NodeCheck:
    """The verdict on one node and the reason."""

    node: Node
    verdict: Verdict
    note: str = ""
    wrong_producers: tuple[str, ...] = ()  # producers whose results are wrong


@dataclass
class DeviceReport:
    """The verdicts of all nodes in execution order."""

    nodes: list[NodeCheck] = field(default_factory=list)

    @property
    def wrong(self) -> list[NodeCheck]:
        """Nodes whose device result does not follow from their device inputs."""
        return [check for check in self.nodes if check.verdict is Verdict.WRONG]

    @property
    def compared(self) -> bool:
        """Whether any node could be compared."""
        return any(check.verdict is not Verdict.UNKNOWN for check in self.nodes)

    def lines(self) -> Iterator[str]:
        """The report as lines of text."""
        for index, check in enumerate(self.wrong):
            where = f", {source}" if (source := check.node.source.sentence()) else ""
            behind = f" (it reads {', '.join(check.wrong_producers[:3])})" if check.wrong_producers else ""
            rank = "wrong" if index else "first wrong"
            yield f"{rank}: {check.node.name} ({check.node.type}){where}: {check.note}{behind}"
        counts = Counter(check.verdict for check in self.nodes)
        summary = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        yield f"{len(self.nodes)} nodes: {summary or 'nothing to compare'}"
        reasons = Counter(check.note for check in self.nodes if check.verdict is Verdict.UNKNOWN)
        yield from (f"  {count} {reason}" for reason, count in reasons.most_common(6))

    def to_json(self) -> str:
        """The report as JSON."""
        facts = [
            {"node": check.node.name, "type": check.node.type, "verdict": check.verdict.value, "note": check.note}
            for check in self.nodes
        ]
        first = self.wrong[0].node.name if self.wrong else None
        return json.dumps({"first_wrong": first, "nodes": facts}, indent=1) + "\n"


def check_device_data(dump: Dump, data: DeviceData) -> DeviceReport:
    """Compare each result of a device with what the host computes from the device's inputs.

    Args:
        dump: The graph that ran on the device.
        data: The tensors that the device dumped.

    Returns:
        A report with ``nodes``, ``wrong``, ``lines()`` and ``to_json()``.

    Raises:
        DumpError: If a dumped tensor cannot be read.

    Examples:
        >>> report = check_device_data(load("ge_proto_Build.txt"), DeviceData(Path("dump")))
        >>> report.wrong[0].node.name
    """
    report = DeviceReport()
    wrong: set[str] = set()
    names = Counter(to_file_name(node.name) for graph in dump.graphs() for node in graph.order)
    for graph in dump.graphs():
        runner = _NodeChecker(graph, data)
        for node in graph.order:
            if node.type in CONST_TYPES | OUTSIDE_TYPES | END_TYPES or node.name in graph.calls:
                continue
            fed = tuple(name for name in dict.fromkeys(edge.node for edge in node.inputs) if name in wrong)
            shared = any(names[to_file_name(name)] > 1 for name in (node.name, *(edge.node for edge in node.inputs)))
            ambiguous = Verdict.UNKNOWN, "with a file name shared by another node"
            verdict, note = ambiguous if shared else runner.check(node)
            if verdict is Verdict.WRONG:
                wrong.add(node.name)
            report.nodes.append(NodeCheck(node, verdict, note, fed))
    return report


class _NotComparableError(Exception):
    """A node cannot be compared; the message is the reason."""


class _NodeChecker:
    def __init__(self, dump: Dump, data: DeviceData) -> None:
        self._dump = dump
        self._data = data

    def check(self, node: Node) -> tuple[Verdict, str]:
        indices = [at for at in range(len(node.proto.output_desc)) if self._data.has(node.name, "output", at)]
        if not indices:
            return Verdict.UNKNOWN, "not dumped"
        try:
            results = self._results(node)
            if indices[-1] >= len(results):
                raise _NotComparableError("with a result that the host's kernel does not have")
            comparisons = [self._compare(node, index, results[index]) for index in indices]
        except _NotComparableError as error:
            return Verdict.UNKNOWN, str(error)
        except DumpError:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines()
            return Verdict.UNKNOWN, f"refused by the host's kernel: {lines[0] if lines else type(error).__name__}"
        worst = [
            comparison
            for verdict in (Verdict.WRONG, Verdict.CLOSE)
            for comparison in comparisons
            if comparison[0] is verdict
        ]
        return worst[0] if worst else (Verdict.EQUAL, "")

    def _results(self, node: Node) -> list[Any]:
        inputs: dict[str, torch.Tensor] = {}
        fed: dict[str, InputState] = {}
        for index, edge in enumerate(node.inputs):
            if edge.node:
                inputs[edge.name], rank = self._input(node, index, edge)
                small = rank is not None and inputs[edge.name].numel() <= LONGEST_SIZES
                fed[edge.name] = InputState(small, rank)
        kernel = choose_kernel(node.type, fed)
        if kernel is None:
            raise _NotComparableError("without a kernel")
        if not chip.has(kernel.chips):
            raise _NotComparableError(f"without a kernel for {chip.current().name}")
        result = kernel.function(*_kernel_arguments(kernel, inputs), **_kernel_attributes(kernel, node))
        several = result if isinstance(result, list) or type(result) is tuple else [result]
        return [to_tensor(value) if isinstance(value, Sizes) else value for value in several]

    def _input(self, node: Node, index: int, edge: Edge) -> tuple[torch.Tensor, int | None]:
        """An input of a node as the device had it, and its rank if it is a constant."""
        producer = self._dump.nodes[edge.node]
        if producer.type in CONST_TYPES and "value" in producer.proto.attr and producer.proto.attr["value"].t.data:
            constant = decode_tensor(producer.proto.attr["value"].t)
            return constant, constant.dim()
        tensor = self._dump.inference.type_of(edge)
        dtype, shape = (tensor.dtype, _static_shape(tensor.shape)) if tensor else ("undefined", None)
        if self._data.has(node.name, "input", index):
            return self._data.tensor(node.name, "input", index, dtype, shape), None
        if self._data.has(edge.node, "output", edge.output):
            return self._data.tensor(edge.node, "output", edge.output, dtype, shape), None
        raise _NotComparableError("with an input that was not dumped")

    def _compare(self, node: Node, index: int, expected: Any) -> tuple[Verdict, str]:
        if not isinstance(expected, torch.Tensor):
            raise _NotComparableError("without a tensor as its result")
        types = self._dump.inference.types[node.name]
        word = types[index].dtype if index < len(types) else "undefined"
        device = self._data.tensor(node.name, "output", index, word, tuple(expected.shape))
        name = node.proto.output_desc[index].name or f"output {index}"
        return compare_tensors(name, device, expected)


def _kernel_arguments(kernel: Kernel, inputs: dict[str, torch.Tensor]) -> list[Any]:
    arguments: list[Any] = []
    for declared in kernel.inputs:
        convert = to_sizes if declared.is_size else torch.Tensor.clone
        if declared.is_dynamic:
            numbered = {name.removeprefix(declared.name): value for name, value in inputs.items()}
            arguments.append([convert(numbered[key]) for key in sorted(filter(str.isdecimal, numbered), key=int)])
        elif declared.name in inputs:
            arguments.append(convert(inputs[declared.name]))
        elif declared.is_optional:
            arguments.append(None)
        else:
            raise _NotComparableError("with an input that the graph does not name")
    return arguments


def _kernel_attributes(kernel: Kernel, node: Node) -> dict[str, Any]:
    stated = {
        parameter: decode_attribute(node.proto.attr[name])
        for name, parameter in kernel.attributes
        if name in node.proto.attr
    }
    return {name: value for name, value in stated.items() if value is not None}


def _static_shape(shape: tuple[Any, ...] | None) -> tuple[int, ...] | None:
    return shape if shape is not None and all(isinstance(size, int) and size >= 0 for size in shape) else None
