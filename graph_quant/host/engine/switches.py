"""TorchAir's switches that only a device can honour say so, instead of failing somewhere inside CANN."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .errors import NeedsNpuError


def refuse_device_switches(compiler: type) -> None:
    """Make TorchAir's compiler check its configuration before it lowers a graph."""
    compiler._gen_compiled_gm = _checking(compiler._gen_compiled_gm)  # type: ignore[attr-defined]


def _checking(generate: Callable[..., Any]) -> Callable[..., Any]:
    def _gen_compiled_gm(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_config(self.config)
        return generate(self, *args, **kwargs)

    return _gen_compiled_gm


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
