"""Adapts TorchAir's compilers to the host device: signal handlers, streams and memory."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import torch

from . import capture
from .devices import current, with_device_guard
from .engine import NeedsNpuError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


_HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_handlers_before_import: dict[int, Any] = {}


def remember_signals() -> None:
    """Store the signal handlers before the import of TorchAir replaces them."""
    for number in _HANDLED_SIGNALS:
        _handlers_before_import[number] = signal.getsignal(number)


def restore_signals(replaced_by: Callable[..., Any] | None) -> None:
    """Restore the signal handlers: TorchAir's ignore the signal after closing a device that does not exist."""
    if replaced_by is None or threading.current_thread() is not threading.main_thread():
        return
    defaults: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    for number in _HANDLED_SIGNALS:
        if signal.getsignal(number) is replaced_by:
            before = _handlers_before_import.get(number)
            signal.signal(number, defaults[number] if before is None else before)


def refuse_static_kernels(module: ModuleType) -> None:
    """Refuse the compilation of kernels for static shapes: there is no compiler for them."""

    def compile_static_kernel(*_args: Any, **_kwargs: Any) -> None:
        raise NeedsNpuError("static_kernel_compile, which compiles kernels for a device,", "leave it off")

    vars(module)["compile_static_kernel"] = compile_static_kernel


def run_on_input_device(compiler: ModuleType) -> None:
    """Run, and so capture, a compiled graph on the device of its inputs: upstream uses the current device."""
    compiled = compiler._CompiledFxGraph
    compiled.__call__ = with_device_guard("torch.compile", compiled.__call__)


def update_on_graph_device(captured: ModuleType) -> None:
    """Update a captured graph on a stream of its device: upstream has one stream for the graphs of all devices."""
    replay = captured.CapturedGraphUpdateAndReplay
    forward, streams = replay.forward, dict[int, Any]()

    def on_its_device(self: Any, *args: Any, **kwargs: Any) -> Any:
        if replay._update_stream.device_index != current():
            streams[replay._update_stream.device_index] = replay._update_stream
            replay._update_stream = streams.get(current()) or torch.npu.Stream(priority=-1)  # type: ignore[attr-defined]
        return forward(self, *args, **kwargs)

    replay.forward = on_its_device


def rebind_inputs(captured: ModuleType) -> None:
    """Rebind weights and inputs that a graph writes: TorchAir compares addresses, which a new tensor may reuse."""
    graph = captured.AclGraph
    process = graph.process_input

    def process_input(self: Any, graph_key: str, *args: Any) -> None:
        meta = self._graphs_meta[graph_key]
        for position, address in {**meta.captured_mutated_inputs, **meta.captured_parameter}.items():
            if args[position].data_ptr() == address:
                capture.rebind_address(args[position])
        process(self, graph_key, *args)

    graph.process_input = process_input
