"""What TorchAir's compiler is kept from: switches that only a device can honour, gradients that nothing has."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch.fx import GraphModule

from ..device.gradients import NO_GRADIENT, refuse
from .errors import NeedsNpuError


def refuse_device_switches(compiler: type) -> None:
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
        raise refuse(operator)

    return backward


def refuse_static_kernels(module: ModuleType) -> None:
    """Let the compilation of kernels for known shapes say that there is nothing to compile them with."""

    def compile_static_kernel(*_args: Any, **_kwargs: Any) -> None:
        raise NeedsNpuError("static_kernel_compile, which compiles kernels for a device,", "leave it off")

    vars(module)["compile_static_kernel"] = compile_static_kernel


def check_config(config: Any) -> None:
    """Raise NeedsNpuError for the first setting of a CompilerConfig that a host cannot honour."""
    if config.aoe_config.aoe_mode.value is not None:
        raise NeedsNpuError("aoe_config.aoe_mode, which tunes kernels on a device,")
    if config.dump_config.enable_dump.value == "1":
        raise NeedsNpuError(
            "dump_config.enable_dump, which copies tensors out of device kernels,", "use debug.data_dump"
        )
