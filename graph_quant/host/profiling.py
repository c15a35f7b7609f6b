"""torch_npu.profiler records the activity of a device, and there is none here; torch.profiler records the CPU."""

from types import ModuleType
from typing import Any

from .engine import NeedsNpuError


def refuse(module: ModuleType) -> None:
    """Make torch_npu's profiler report why it records nothing; it logs errors and the script continues."""

    def init_trace(_self: Any) -> None:
        raise NeedsNpuError("torch_npu.profiler", "torch.profiler records what the CPU does")

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        """Do nothing: upstream would write into the working folder."""

    interface = module._ProfInterface
    interface.init_trace = init_trace
    for name in ("stop_trace", "finalize_trace", "analyse"):
        setattr(interface, name, nothing)
