"""torch_npu.profiler, which records what a device does: there is none here, and torch.profiler records the CPU."""

from types import ModuleType
from typing import Any

from .engine import NeedsNpuError


def refuse(module: ModuleType) -> None:
    """Let torch_npu's profiler say why it records nothing; it reports errors and lets the script go on."""

    def init_trace(_self: Any) -> None:
        raise NeedsNpuError("torch_npu.profiler", "torch.profiler records what the CPU does")

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        """There is nothing to stop, to write (upstream would, into the working folder) or to read."""

    interface = module._ProfInterface
    interface.init_trace = init_trace
    for name in ("stop_trace", "finalize_trace", "analyse"):
        setattr(interface, name, nothing)
