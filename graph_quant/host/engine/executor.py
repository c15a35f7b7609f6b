"""Stands where TorchAir puts its device executor: loads a GE graph, and runs it on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ..alias import as_cpu, to_npu
from . import inputs, speed
from .compiled import Run, make_callable
from .errors import GraphError, NeedsNpuError
from .importer import import_graph
from .order import DATA_TYPES
from .ownership import shared_outputs
from .provenance import origins_of, output_devices_of

_ON_DEVICE = 1


class HostGraph:
    """TorchAir's ``TorchNpuGraph`` for the host."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.module: fx.GraphModule | None = None
        self._run: Run | None = None
        self._input_readers: list[Callable[[torch.Tensor], Any]] = []
        self._fresh: tuple[bool, ...] = ()
        self._to_npu: tuple[bool, ...] = ()

    def load(self, ge_graph: Any, options: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """Import the graph; every operator without a kernel is named before anything runs."""
        self.module = import_graph(ge_graph, origins_of(ge_graph))
        data = [node.meta["ge"] for node in self.module.graph.nodes if node.op == "placeholder"]
        self._input_readers = [_reader(node) for node in data]
        self._fresh = shared_outputs(self.module)
        self._to_npu = _output_placement(ge_graph, len(self._fresh))

    def compile(self) -> None:
        """Settle the speed."""
        if self.module is None:
            raise GraphError(f"{self.name}: compile before load")
        self._run = make_callable(self.module, speed.current())

    def run(
        self,
        inputs: Sequence[torch.Tensor],
        assigned_outputs: Sequence[torch.Tensor | None] = (),
        stream: Any = None,  # noqa: ARG002
    ) -> list[torch.Tensor]:
        """The outputs; those that TorchAir assigned are written into the given tensors."""
        if self._run is None:
            raise GraphError(f"{self.name}: run before compile")
        arguments = [read(tensor) for read, tensor in zip(self._input_readers, inputs, strict=True)]
        results = list(self._run(*arguments))
        for index, assigned in enumerate(assigned_outputs):
            if assigned is not None:
                _write(assigned, results[index])
                results[index] = assigned
        for index, (fresh, moves) in enumerate(zip(self._fresh, self._to_npu, strict=True)):
            result = results[index]
            if index < len(assigned_outputs) and assigned_outputs[index] is not None:
                continue
            if moves:
                results[index] = to_npu(result.contiguous())
            elif not fresh:
                results[index] = result.clone(memory_format=torch.contiguous_format)
            elif not result.is_contiguous():
                results[index] = result.contiguous()
        return results

    def auto_tune(self, example_inputs: Sequence[torch.Tensor] = (), stream: Any = None) -> None:  # noqa: ARG002
        """Refuse: tuning measures a device."""
        raise NeedsNpuError("auto tuning (aoe_config.aoe_mode)")


def _reader(node: Any) -> Callable[[torch.Tensor], Any]:
    """How an input of the graph becomes an argument: sizes as numbers, npu tensors through their host memory."""
    if not inputs.is_size(node):
        return _as_host_tensor
    scalar = not node.proto.output_desc[0].shape.dim
    return (lambda tensor: tensor.item()) if scalar else (lambda tensor: tensor.tolist())


def _as_host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.is_cpu else as_cpu(tensor)


def _write(assigned: torch.Tensor, result: torch.Tensor) -> None:
    target = _as_host_tensor(assigned)
    if target.data_ptr() != result.data_ptr() or target.stride() != result.stride():
        target.copy_(result)


def _output_placement(ge_graph: Any, count: int) -> tuple[bool, ...]:
    """For each output whether it belongs on the npu: as TorchAir traced it, or where the inputs are."""
    devices = output_devices_of(ge_graph)
    placements = list(ge_graph.attr["_input_placements"].list.i) if "_input_placements" in ge_graph.attr else []
    anywhere = _ON_DEVICE in placements
    known = [device == "npu" for device in devices]
    return tuple(known[index] if index < len(known) else anywhere for index in range(count))


__all__ = ["DATA_TYPES", "HostGraph"]
