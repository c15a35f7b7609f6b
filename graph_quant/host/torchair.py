"""The seams of TorchAir: where it calls CANN, the host answers.

TorchAir's own code stays as it is. What is replaced are the entry points of its C++ module, the executor that its
graphs create, and two of its methods that are wrapped to note where nodes come from.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import capture
from .device import NO_GRADIENT, missing_gradient
from .devices import at_home, current
from .engine import NeedsNpuError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from torch.fx import GraphModule

_HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_handlers_before_import: dict[int, Any] = {}


def remember_signals() -> None:
    """Note the signal handlers in force before TorchAir is imported, and replaces them."""
    for number in _HANDLED_SIGNALS:
        _handlers_before_import[number] = signal.getsignal(number)


def install() -> None:
    """Let TorchAir lower and run graphs on the host. Kernels are loaded with the first graph."""
    backend = sys.modules["torchair.core._backend"]
    native = vars(backend)["_torchair"]
    native.InitializeGraphEngine = lambda options: None  # noqa: ARG005
    native.FinalizeGraphEngine = lambda: None
    native.check_cann_compat = lambda op_type, inputs, attributes: ""  # noqa: ARG005
    native.get_registered_ir_def = _registered_ir
    native.export = _export
    vars(backend)["TorchNpuGraph"] = _make_executor
    restore_signals(vars(backend)["_signal_handler"])
    _wrap(sys.modules["torchair._ge_concrete_graph.fx2ge_converter"], sys.modules["torchair.npu_fx_compiler"])


def _make_executor(name: str = "") -> Any:
    from .engine import HostGraph

    return HostGraph(name)


def _registered_ir(op_type: str) -> Any:
    from .engine import registered_ir

    return registered_ir(op_type)


def _export(serialized_model: bytes, options: Mapping[str, str]) -> None:
    """Write the model where TorchAir's export asks for it; an .air file is the serialised ModelDef."""
    path = Path(options["export_path_dir"]) / options["export_name"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(serialized_model)


def restore_signals(replaced_by: Callable[..., Any]) -> None:
    """Put back the signal handlers: TorchAir's ignore the signal after closing a device that is not there."""
    if threading.current_thread() is not threading.main_thread():
        return
    defaults: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    for number in _HANDLED_SIGNALS:
        if signal.getsignal(number) is replaced_by:
            before = _handlers_before_import.get(number)
            signal.signal(number, defaults[number] if before is None else before)


def _wrap(converter: Any, compiler: Any) -> None:
    from .engine import knowing_weights, note_provenance

    note_provenance(converter.GeConcreteGraph)
    compiler._compile_graph_with_aot = knowing_weights(compiler._compile_graph_with_aot)
    _check_before_lowering(compiler._NpuFxCompiler)
    # The same event for a profiler; without one it costs nothing, where the other takes as long as a small kernel.
    compiler.record_function = torch._C._profiler._RecordFunctionFast


def _check_before_lowering(compiler: type) -> None:
    """Make TorchAir's compiler check its configuration before it lowers a graph."""
    compiler._gen_compiled_gm = _checking(compiler._gen_compiled_gm)  # type: ignore[attr-defined]


def _checking(generate: Callable[..., Any]) -> Callable[..., Any]:
    def _gen_compiled_gm(self: Any, gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        check_config(self.config)
        for node in gm.graph.find_nodes(op="call_function", target=NO_GRADIENT):
            return _raising(str(node.args[2]))  # nothing of such a graph is ever computed
        return generate(self, gm, *args, **kwargs)

    return _gen_compiled_gm


def _raising(operator: str) -> Callable[..., Any]:
    def backward(*_args: Any, **_kwargs: Any) -> Any:
        raise missing_gradient(operator)

    return backward


def refuse_static_kernels(module: ModuleType) -> None:
    """Let the compilation of kernels for known shapes say that there is nothing to compile them with."""

    def compile_static_kernel(*_args: Any, **_kwargs: Any) -> None:
        raise NeedsNpuError("static_kernel_compile, which compiles kernels for a device,", "leave it off")

    vars(module)["compile_static_kernel"] = compile_static_kernel


def run_on_its_device(compiler: ModuleType) -> None:
    """Run, and so capture, what is compiled on the device of its inputs: upstream captures on the current one."""
    compiled = compiler._CompiledFxGraph
    compiled.__call__ = at_home("torch.compile", compiled.__call__)


def update_on_its_device(captured: ModuleType) -> None:
    """Update a captured graph on a stream of its device: upstream keeps one stream for the graphs of all devices."""
    replay = captured.CapturedGraphUpdateAndReplay
    forward, streams = replay.forward, dict[int, Any]()

    def on_its_device(self: Any, *args: Any, **kwargs: Any) -> Any:
        if replay._update_stream.device_index != current():
            streams[replay._update_stream.device_index] = replay._update_stream
            replay._update_stream = streams.get(current()) or torch.npu.Stream(priority=-1)  # type: ignore[attr-defined]
        return forward(self, *args, **kwargs)

    replay.forward = on_its_device


def give_what_is_written(captured: ModuleType) -> None:
    """Say which inputs a graph writes to: TorchAir compares their addresses, which a new tensor may have again."""
    graph = captured.AclGraph
    process = graph.process_input

    def process_input(self: Any, graph_key: str, *args: Any) -> None:
        for place in self._graphs_meta[graph_key].captured_mutated_inputs:
            capture.give(args[place])
        process(self, graph_key, *args)

    graph.process_input = process_input


def check_config(config: Any) -> None:
    """Raise NeedsNpuError for the first setting of a CompilerConfig that a host cannot honour."""
    if config.aoe_config.aoe_mode.value is not None:
        raise NeedsNpuError("aoe_config.aoe_mode, which tunes kernels on a device,")
    if config.dump_config.enable_dump.value == "1":
        raise NeedsNpuError(
            "dump_config.enable_dump, which copies tensors out of device kernels,", "use debug.data_dump"
        )
