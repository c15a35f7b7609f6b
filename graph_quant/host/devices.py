"""Several devices in one process: a call works on the device of its tensors, whatever the current one is."""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch_npu
from torch import Tensor

from .recording import runtime

# They take tensors of two devices.
_BETWEEN_DEVICES = frozenset(
    f"aten::{name}" for name in ("_copy_from", "_copy_from_and_resize", "_foreach_copy_", "_to_copy", "copy_")
)


def count() -> int:
    """Return how many devices this process sees."""
    found = ctypes.c_uint32()
    runtime.aclrtGetDeviceCount(ctypes.byref(found))
    return found.value


def current() -> int:
    """Return the number of the device that this thread works on."""
    index: int = torch_npu._C._npu_getDevice()
    return index


def with_device_guard(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that works on the device of its tensors: the same one where there is but one device."""
    if count() == 1:
        return kernel

    def on_its_device(*args: Any, **kwargs: Any) -> Any:
        home = _device_of_call(name, args, kwargs)
        if home is None or home == current():
            return kernel(*args, **kwargs)
        with torch.npu.device(home):  # type: ignore[attr-defined]
            return kernel(*args, **kwargs)

    return on_its_device


def _device_of_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Return the device that is asked for, or that all tensors of a call are on; None where it is of no device."""
    asked = kwargs.get("device")
    if isinstance(asked, torch.device) and asked.type == "npu" and asked.index is not None:
        return asked.index
    found = list(dict.fromkeys(_npu_indices((*args, *kwargs.values()))))
    if len(found) > 1 and name not in _BETWEEN_DEVICES:
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
            f"npu:{found[0]} and npu:{found[1]}!"
        )
    return found[0] if found else None


def _npu_indices(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, Tensor):
            if value.device.type == "npu":
                yield value.get_device()
        elif isinstance(value, (list, tuple)):
            yield from _npu_indices(value)
