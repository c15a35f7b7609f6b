"""The "ascend" backend of Triton on the host: what libraries ask the driver of a device for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.backends import Backend, backends
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.backends.driver import DriverBase

from ..acl import get_soc_name

NAME = "ascend"
CORES = "GRAPH_QUANT_TRITON_CORES"


def register() -> None:
    """Add the backend."""
    backends[NAME] = Backend(HostCompiler, HostDriver)


class HostUtils:
    """Facts about a device."""

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """Return the numbers of cores, by triton-ascend's names."""
        if chosen := os.environ.get(CORES):
            if not chosen.isdecimal() or int(chosen) < 1:
                raise ValueError(f"{CORES} must be a number from 1, got {chosen!r}")
            return {"num_aicore": int(chosen), "num_vectorcore": 2 * int(chosen)}
        properties: Any = torch.npu.get_device_properties(device)  # type: ignore[attr-defined]
        return {"num_aicore": properties.cube_core_num, "num_vectorcore": properties.vector_core_num}


class HostDriver(DriverBase):  # type: ignore[misc]
    """The driver of the host NPU."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = HostUtils()

    @classmethod
    def is_active(cls) -> bool:
        """Whether there is a device: there is."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Refuse: nothing is compiled."""
        raise NotImplementedError(f"the host NPU interprets Triton kernels, and has no C++ type for {ty}")

    def get_current_target(self) -> GPUTarget:
        """Return the chip."""
        # Modules ask for it at their import, in processes that fork afterwards: torch_npu would initialise the device.
        return GPUTarget("npu", get_soc_name(), 0)

    def get_active_torch_device(self) -> torch.device:
        """Return the current device."""
        return torch.device("npu", self.get_current_device())

    def get_current_device(self) -> int:
        """Return the index of the current device."""
        return int(torch.npu.current_device())  # type: ignore[attr-defined]

    def set_current_device(self, device: int) -> None:
        """Use a device."""
        torch.npu.set_device(device)  # type: ignore[attr-defined]

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the handle of the current stream."""
        return int(torch.npu.current_stream(device).npu_stream)  # type: ignore[attr-defined]

    def get_device_interface(self) -> Any:
        """Return torch's module of the device."""
        return torch.get_device_module("npu")

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        """Return a benchmark by which all configurations take no time: autotuning keeps the first one."""
        return lambda *_, quantiles=None, **__: [0.0] * len(quantiles or (0.5, 0.2, 0.8))


class HostCompiler(BaseBackend):  # type: ignore[misc]
    """The compiler of the host NPU, which compiles nothing."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether the target is an NPU."""
        return target.backend == "npu"

    def hash(self) -> str:
        """Return the identifier of the backend."""
        return f"{NAME}-host"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Return the options of a launch."""
        return options

    def add_stages(self, stages: dict[str, Any], options: object, language: Any) -> None:
        """Refuse: nothing is compiled."""
        raise NotImplementedError("the host NPU interprets Triton kernels and does not compile them")

    def load_dialects(self, context: Any) -> None:
        """Load nothing."""

    def get_module_map(self) -> dict[str, Any]:
        """Return that there are no modules of the device."""
        return {}
