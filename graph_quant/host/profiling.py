"""torch_npu.profiler, which records what a device does: there is none here, and torch.profiler records the CPU."""

from types import ModuleType
from typing import Any

from .engine import NeedsNpuError


def refuse(module: ModuleType) -> None:
    """Let torch_npu's profiler say why it records nothing; it reports errors and lets the script go on."""

    def init_trace(_self: Any) -> None:
        raise NeedsNpuError("torch_npu.profiler", "torch.profiler records what the CPU does")

    module._ProfInterface.init_trace = init_trace
