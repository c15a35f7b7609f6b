"""Several devices in one process: a call runs on the device of its tensors, whichever is current."""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch_npu
from torch import Tensor

from .recording import runtime

# Operators that take tensors of two devices.
_BETWEEN_DEVICES = frozenset(
    f"aten::{name}" for name in ("_copy_from", "_copy_from_and_resize", "_foreach_copy_", "_to_copy", "copy_")
)


def count() -> int:
    """Return the number of devices that this process sees."""
    number = ctypes.c_uint32()
    runtime.aclrtGetDeviceCount(ctypes.byref(number))
    return number.value


def current() -> int:
    """Return the index of the current device of this thread."""
    index: int = torch_npu._C._npu_getDevice()
    return index


def with_device_guard(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that runs on the device of its tensors; with one device, `kernel` itself."""
    if count() == 1:
        return kernel

    def on_its_device(*args: Any, **kwargs: Any) -> Any:
        device = _device_of_call(name, args, kwargs)
        if device is None or device == current():
            return kernel(*args, **kwargs)
        with torch.npu.device(device):  # type: ignore[attr-defined]
            return kernel(*args, **kwargs)

    return on_its_device


def _device_of_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Return the index of the requested device, or of the device of all tensors of a call; None if there is neither."""
    requested = kwargs.get("device")
    if isinstance(requested, torch.device) and requested.type == "npu" and requested.index is not None:
        return requested.index
    indices = list(dict.fromkeys(_npu_indices((*args, *kwargs.values()))))
    if len(indices) > 1 and name not in _BETWEEN_DEVICES:
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
            f"npu:{indices[0]} and npu:{indices[1]}!"
        )
    return indices[0] if indices else None


def _npu_indices(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, Tensor):
            if value.device.type == "npu":
                yield value.get_device()
        elif isinstance(value, (list, tuple)):
            yield from _npu_indices(value)
