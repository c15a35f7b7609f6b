"""Replaces TorchAir's device executor: loads a GE graph, and runs it on the host."""

from __future__ import annotations

import ctypes
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ...ge import Node, layouts_of, output_devices_of, sources_of
from ..alias import NPU, kept_alias, to_npu
from ..devices import with_device_guard
from .engines import Run, current
from .errors import GraphError, NeedsNpuError
from .importer import import_graph, make_callable

_ON_DEVICE = 1
# Bytes up to which a plain memory copy is faster than one through torch.
_SMALL = 1 << 16
Convert = Callable[[torch.Tensor], Any]


class HostGraph:
    """TorchAir's ``TorchNpuGraph`` for the host. Everything that does not depend on a call is prepared in ``load``."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.module: fx.GraphModule | None = None
        self._run: Run | None = None
        self._readers: list[Convert] = []
        self._deliveries: list[Convert] = []

    def load(self, ge_graph: Any, options: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """Import the graph; raise before anything runs if a node has no kernel."""
        self.module = import_graph(ge_graph, sources_of(ge_graph), layouts_of(ge_graph))
        data = [node.meta["ge"] for node in self.module.graph.nodes if node.op == "placeholder"]
        self._readers = [_reader(node) for node in data]
        owned = _owned_outputs(self.module)
        placement = _output_placement(ge_graph, len(owned))
        self._deliveries = [_delivery(on_npu, is_owned) for on_npu, is_owned in zip(placement, owned, strict=True)]

    def compile(self) -> None:
        """Compile the graph for the current engine."""
        if self.module is None:
            raise GraphError(f"{self.name}: compile before load")
        self._run = make_callable(self.module, current())

    def run(
        self,
        inputs: Sequence[torch.Tensor],
        assigned_outputs: Sequence[torch.Tensor | None] = (),
        stream: Any = None,  # noqa: ARG002
    ) -> list[torch.Tensor]:
        """Run the graph, and return its outputs. Outputs with an assigned tensor are written into it."""
        if self._run is None:
            raise GraphError(f"{self.name}: run before compile")
        return self._compute(self._run, inputs, assigned_outputs)

    def _compute(
        self, run: Run, inputs: Sequence[torch.Tensor], assigned_outputs: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor]:
        """Run the graph; its results are on the current device."""
        grad_was_enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # torch.no_grad, at a third of its cost
        try:
            results = run(*[read(tensor) for read, tensor in zip(self._readers, inputs, strict=True)])
            if not assigned_outputs:
                return [deliver(result) for deliver, result in zip(self._deliveries, results, strict=True)]
            # Results may be views of inputs that are about to be overwritten; they are copied first.
            delivered = [
                result if assigned is not None else deliver(result)
                for deliver, result, assigned in zip(self._deliveries, results, assigned_outputs, strict=True)
            ]
            return _write_assigned(delivered, assigned_outputs)
        finally:
            torch._C._set_grad_enabled(grad_was_enabled)

    def auto_tune(self, example_inputs: Sequence[torch.Tensor] = (), stream: Any = None) -> None:  # noqa: ARG002
        """Raise: tuning measures a device."""
        raise NeedsNpuError("auto tuning (aoe_config.aoe_mode)")


HostGraph._compute = with_device_guard("a graph", HostGraph._compute)  # type: ignore[method-assign]


def _reader(node: Node) -> Convert:
    """Return how an input of the graph becomes an argument: sizes as numbers, npu tensors as CPU aliases."""
    desc = node.proto.output_desc[0]
    # The desc of a FRACTAL_NZ input has no sizes; torch's sizes are in its attribute origin_shape.
    scalar = not desc.shape.dim and "origin_shape" not in desc.attr
    if not node.is_size:
        return _host_scalar if scalar else _host_tensor
    return torch.Tensor.item if scalar else torch.Tensor.tolist


def _host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_cpu else kept_alias(tensor)


def _host_scalar(tensor: torch.Tensor) -> torch.Tensor:
    """Return a scalar: TorchAir passes numbers, which the graph describes as scalars, as tensors of one element."""
    return _host_tensor(tensor).reshape(())


def _delivery(on_npu: bool, owned: bool) -> Convert:
    """Return how a result is handed out: contiguous, on its device, in its own memory."""
    if on_npu:
        return _to_npu
    return torch.Tensor.contiguous if owned else _copy


def _to_npu(result: torch.Tensor) -> torch.Tensor:
    result = result.contiguous()
    if result.nbytes > _SMALL:
        return to_npu(result)
    moved = torch.empty(result.size(), dtype=result.dtype, device=NPU)
    ctypes.memmove(moved.data_ptr(), result.data_ptr(), result.nbytes)
    return moved


def _copy(result: torch.Tensor) -> torch.Tensor:
    return result.clone(memory_format=torch.contiguous_format)


def _write_assigned(results: list[torch.Tensor], assigned_outputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    targets = [None if assigned is None else _host_tensor(assigned) for assigned in assigned_outputs]
    memory = {target.untyped_storage().data_ptr() for target in targets if target is not None}
    for index, (result, target) in enumerate(zip(results, targets, strict=True)):
        if target is None or _is_same(target, result):
            continue
        if result.untyped_storage().data_ptr() in memory:
            results[index] = result.clone()
    for index, (assigned, target) in enumerate(zip(assigned_outputs, targets, strict=True)):
        if assigned is not None and target is not None:
            if not _is_same(target, results[index]):
                target.copy_(results[index])
            results[index] = assigned
    return results


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are the same view of the same memory; strides tell a transposed view apart."""
    return one.data_ptr() == other.data_ptr() and one.stride() == other.stride() and one.shape == other.shape


def _output_placement(ge_graph: Any, count: int) -> list[bool]:
    """Return for each output whether it belongs on the npu: as TorchAir traced it, else as the inputs."""
    traced = [device == "npu" for device in output_devices_of(ge_graph)][:count]
    placements = ge_graph.attr["_input_placements"].list.i if "_input_placements" in ge_graph.attr else ()
    return traced + [_ON_DEVICE in placements] * (count - len(traced))


def _owned_outputs(module: fx.GraphModule) -> list[bool]:
    """Return for each output whether it shares memory with no input, constant or other output."""
    results: Any = module.graph.output_node().args[0]
    roots = [_root(result) for result in results]
    counts = Counter(roots)
    return [root.op == "call_function" and counts[root] == 1 for root in roots]


def _root(node: fx.Node) -> fx.Node:
    """Return the node that allocated the memory of a result."""
    while node.op == "call_function":
        producer: Any = node.args[0] if node.target is operator.getitem else node
        kernel = producer.meta.get("kernel")
        if kernel is None or not kernel.may_alias:
            return node
        node = next(
            argument for declared, argument in zip(kernel.inputs, producer.args, strict=True) if not declared.is_size
        )
    return node
