"""Recomputes every node of a graph on the host from what a device gave it, and finds the first that is wrong."""

from __future__ import annotations

import enum
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

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
from ..read.device_data import DeviceData, file_name

if TYPE_CHECKING:
    from ..dump import Dump

# How far a device may be off, for each element, as a share of that element and of the whole result's usual size:
# it adds in another order, and rounds what it adds to its own precision.
_ROUNDING = {torch.float64: 2**-30, torch.float32: 2**-10, torch.float16: 2**-6, torch.bfloat16: 2**-4}
_STEPS = 1  # of a quantised result, where a sum lies between two of them
_SHARE_OF_STEPS = 0.02


class Verdict(enum.Enum):
    """What was found of a node."""

    EQUAL = "equal bits"
    CLOSE = "within rounding"
    WRONG = "wrong"
    UNKNOWN = "not comparable"


@dataclass(frozen=True)
class Checked:
    """One node: the verdict, and why."""

    node: Node
    verdict: Verdict
    note: str = ""
    fed_wrong: tuple[str, ...] = ()  # the nodes before it that are wrong themselves


@dataclass
class DeviceReport:
    """All nodes in the order in which they run."""

    nodes: list[Checked] = field(default_factory=list)

    @property
    def wrong(self) -> list[Checked]:
        """Nodes whose result a device did not compute from its inputs."""
        return [each for each in self.nodes if each.verdict is Verdict.WRONG]

    @property
    def compared(self) -> bool:
        """Whether anything was."""
        return any(each.verdict is not Verdict.UNKNOWN for each in self.nodes)

    def lines(self) -> Iterator[str]:
        """The report in text."""
        for place, each in enumerate(self.wrong):
            where = f", {source}" if (source := each.node.source.sentence()) else ""
            behind = f" (it reads {', '.join(each.fed_wrong[:3])})" if each.fed_wrong else ""
            rank = "wrong" if place else "first wrong"
            yield f"{rank}: {each.node.name} ({each.node.type}){where}: {each.note}{behind}"
        counts = Counter(each.verdict for each in self.nodes)
        told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        yield f"{len(self.nodes)} nodes: {told or 'nothing to compare'}"
        reasons = Counter(each.note for each in self.nodes if each.verdict is Verdict.UNKNOWN)
        yield from (f"  {count} {reason}" for reason, count in reasons.most_common(6))

    def to_json(self) -> str:
        """The report for programs."""
        facts = [
            {"node": each.node.name, "type": each.node.type, "verdict": each.verdict.value, "note": each.note}
            for each in self.nodes
        ]
        first = self.wrong[0].node.name if self.wrong else None
        return json.dumps({"first_wrong": first, "nodes": facts}, indent=1) + "\n"


def check_device_data(dump: Dump, data: DeviceData) -> DeviceReport:
    """Compare the device's result of every node with what the host computes from the device's own inputs."""
    report = DeviceReport()
    wrong: set[str] = set()
    names = Counter(file_name(node.name) for graph in dump.graphs() for node in graph.order)
    for graph in dump.graphs():
        runner = _Runner(graph, data)
        for node in graph.order:
            if node.type in CONST_TYPES | OUTSIDE_TYPES | END_TYPES or node.name in graph.calls:
                continue
            fed = tuple(name for name in dict.fromkeys(edge.node for edge in node.inputs) if name in wrong)
            shared = any(names[file_name(name)] > 1 for name in (node.name, *(edge.node for edge in node.inputs)))
            told = Verdict.UNKNOWN, "with a file name that is another node's, too"
            verdict, note = told if shared else runner.check(node)
            if verdict is Verdict.WRONG:
                wrong.add(node.name)
            report.nodes.append(Checked(node, verdict, note, fed))
    return report


class _Unknown(Exception):
    """Why a node cannot be compared."""


class _Runner:
    def __init__(self, dump: Dump, data: DeviceData) -> None:
        self._dump = dump
        self._data = data

    def check(self, node: Node) -> tuple[Verdict, str]:
        places = [at for at in range(len(node.proto.output_desc)) if self._data.has(node.name, "output", at)]
        if not places:
            return Verdict.UNKNOWN, "not dumped"
        try:
            results = self._results(node)
            if places[-1] >= len(results):
                raise _Unknown("with a result that the host's kernel does not have")
            found = [self._compare(node, place, results[place]) for place in places]
        except _Unknown as error:
            return Verdict.UNKNOWN, str(error)
        except DumpError:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines()
            return Verdict.UNKNOWN, f"refused by the host's kernel: {lines[0] if lines else type(error).__name__}"
        worst = [each for verdict in (Verdict.WRONG, Verdict.CLOSE) for each in found if each[0] is verdict]
        return worst[0] if worst else (Verdict.EQUAL, "")

    def _results(self, node: Node) -> list[Any]:
        inputs: dict[str, torch.Tensor] = {}
        fed: dict[str, InputState] = {}
        for place, edge in enumerate(node.inputs):
            if edge.node:
                inputs[edge.name], rank = self._input(node, place, edge)
                small = rank is not None and inputs[edge.name].numel() <= LONGEST_SIZES
                fed[edge.name] = InputState(small, rank)
        kernel = choose_kernel(node.type, fed)
        if kernel is None:
            raise _Unknown("without a kernel")
        result = kernel.function(*_arguments(kernel, inputs), **_attributes(kernel, node))
        several = result if isinstance(result, list) or type(result) is tuple else [result]
        return [to_tensor(each) if isinstance(each, Sizes) else each for each in several]

    def _input(self, node: Node, place: int, edge: Edge) -> tuple[torch.Tensor, int | None]:
        """What the device fed to a node, and its rank where it is a constant."""
        producer = self._dump.nodes[edge.node]
        if producer.type in CONST_TYPES and "value" in producer.proto.attr and producer.proto.attr["value"].t.data:
            constant = decode_tensor(producer.proto.attr["value"].t)
            return constant, constant.dim()
        found = self._dump.inference.of(edge)
        dtype, shape = (found.dtype, _numbers(found.shape)) if found else ("undefined", None)
        if self._data.has(node.name, "input", place):
            return self._data.tensor(node.name, "input", place, dtype, shape), None
        if self._data.has(edge.node, "output", edge.output):
            return self._data.tensor(edge.node, "output", edge.output, dtype, shape), None
        raise _Unknown("with an input that was not dumped")

    def _compare(self, node: Node, place: int, expected: Any) -> tuple[Verdict, str]:
        if not isinstance(expected, torch.Tensor):
            raise _Unknown("without a tensor as its result")
        types = self._dump.inference.types[node.name]
        word = types[place].dtype if place < len(types) else "undefined"
        device = self._data.tensor(node.name, "output", place, word, tuple(expected.shape))
        name = node.proto.output_desc[place].name or f"output {place}"
        if device.shape != expected.shape:
            return Verdict.WRONG, f"{name} has the shape {list(device.shape)}, the host {list(expected.shape)}"
        if device.dtype != expected.dtype:
            return Verdict.WRONG, f"{name} is {device.dtype}, the host's {expected.dtype}"
        return _verdict(name, device, expected)


def _arguments(kernel: Kernel, inputs: dict[str, torch.Tensor]) -> list[Any]:
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
            raise _Unknown("with an input that the graph does not name")
    return arguments


def _attributes(kernel: Kernel, node: Node) -> dict[str, Any]:
    stated = {
        parameter: decode_attribute(node.proto.attr[name])
        for name, parameter in kernel.attributes
        if name in node.proto.attr
    }
    return {name: value for name, value in stated.items() if value is not None}


def _numbers(shape: tuple[Any, ...] | None) -> tuple[int, ...] | None:
    return shape if shape is not None and all(isinstance(size, int) and size >= 0 for size in shape) else None


def _verdict(name: str, device: torch.Tensor, expected: torch.Tensor) -> tuple[Verdict, str]:
    if device.is_complex():
        device, expected = torch.view_as_real(device), torch.view_as_real(expected)
    # As they are: a long integer is not what float64 makes of it.
    same = (device == expected) | (device.isnan() & expected.isnan())
    differing = int((~same).sum())
    if not differing:
        return (Verdict.EQUAL if _same_signs(device, expected) else Verdict.CLOSE), ""
    one, other = device.to(torch.float64), expected.to(torch.float64)
    error = torch.where(same, 0.0, (one - other).abs())
    if device.dtype in _ROUNDING:
        finite = one.isfinite() & other.isfinite()
        usual = float(other[finite].square().mean().sqrt()) if bool(finite.any()) else 0.0
        far = ~(finite & (error <= _ROUNDING[device.dtype] * (other.abs() + usual))) & ~same
    else:
        few = differing <= max(1, _SHARE_OF_STEPS * device.numel()) and device.element_size() == 1
        far = (error > _STEPS) if few and device.dtype != torch.bool else ~same
    if not bool(far.any()):
        return Verdict.CLOSE, ""
    place = int(far.reshape(-1).nonzero()[0])
    index = [int(part) for part in torch.unravel_index(torch.tensor(place), device.shape)]
    noise, signal = float(error.square().sum()), float(other.nan_to_num(posinf=0, neginf=0).square().sum())
    ratio = f", SQNR {10 * math.log10(signal / noise):.1f} dB" if signal > 0 and 0 < noise < math.inf else ""
    values = [float(each.reshape(-1)[place]) for each in (one, other)]
    there = f"at {index} the device has {values[0]:.7g}, the host {values[1]:.7g}"
    return Verdict.WRONG, f"{name} differs in {differing} of {device.numel()} elements; {there}{ratio}"


def _same_signs(device: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether equal numbers have equal bits: a zero has a sign."""
    signs = [torch.signbit(each) & ~each.isnan() for each in (device, expected)]
    return torch.equal(*signs)
