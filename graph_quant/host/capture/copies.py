"""Copies on a captured stream: within the device, and to or from pinned memory; all others would block."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..alias import NPU, as_cpu, check_index
from .runtime import not_permitted
from .tape import Entry


def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> tuple[Tensor, Entry]:
    """Copy with conversion and broadcasting."""
    if self.size() != src.size():
        src = src.expand(self.size())
    run = partial(_alias(self, "aten::copy_", non_blocking).copy_, _alias(src, "aten::copy_", non_blocking))
    return self, Entry("aten::copy_", run, _on_npu(self, src))


def copy_from(self: Tensor, dst: Tensor, non_blocking: bool = False) -> tuple[Tensor, Entry]:
    """Call copy_ with swapped arguments."""
    return copy_(dst, self, non_blocking)


def copy_from_and_resize(self: Tensor, dst: Tensor) -> tuple[Tensor, Entry]:
    """Resize the target to the source's size and copy."""
    return copy_(dst.resize_(self.size()), self)


def to_copy(
    self: Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> tuple[Tensor, Entry]:
    """Convert device, dtype and memory format into new memory."""
    target = self.device if device is None else device
    if layout is not None and layout is not torch.strided:
        raise NotImplementedError(f"aten::_to_copy: {layout} tensors are not supported on the host NPU")
    meta = torch.empty_strided(self.size(), self.stride(), dtype=self.dtype, device="meta")
    resolved_format = torch.preserve_format if memory_format is None else memory_format
    like = torch.empty_like(meta, dtype=self.dtype if dtype is None else dtype, memory_format=resolved_format)
    allocate = partial(torch.empty_strided, like.size(), like.stride(), dtype=like.dtype)
    if target.type == "npu":
        check_index(target)
        result = allocate(device=NPU)
    elif target.type == "cpu":
        result = allocate(device="cpu")
        if pin_memory or non_blocking:
            result = result.pin_memory()
    else:
        raise NotImplementedError(f"aten::_to_copy: cannot move a tensor from {self.device} to {target}")
    _, kernel = copy_(result, self, non_blocking)
    return result, kernel._replace(operator="aten::_to_copy")


def clone(self: Tensor, *, memory_format: torch.memory_format | None = None) -> tuple[Tensor, Entry]:
    """Copy within the device."""
    return to_copy(self, memory_format=memory_format)


def is_blocking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a copy waits for the device because its source or target is on the CPU."""
    devices = [value.device for value in args if isinstance(value, Tensor)] + [kwargs.get("device") or NPU]
    non_blocking = kwargs.get("non_blocking") or any(value is True for value in args)
    return not non_blocking and any(device.type == "cpu" for device in devices)


def _alias(tensor: Tensor, operator: str, non_blocking: bool) -> Tensor:
    """Return the CPU alias of a tensor; raise for memory that a device cannot reach by itself."""
    if tensor.device.type == "npu":
        return as_cpu(tensor)
    if not non_blocking:
        raise not_permitted(operator, "a copy to or from the CPU waits unless it is non_blocking")
    if not tensor.is_pinned():
        raise not_permitted(operator, "only pinned memory of the CPU can be copied without waiting")
    return tensor


def _on_npu(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor in tensors if tensor.device.type == "npu")


COPIES: dict[str, Callable[..., tuple[Any, Entry]]] = {
    "aten::_copy_from": copy_from,
    "aten::_copy_from_and_resize": copy_from_and_resize,
    "aten::_to_copy": to_copy,
    "aten::clone": clone,
    "aten::copy_": copy_,
}
