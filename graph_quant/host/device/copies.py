"""Copies between and within devices. All of them stay in host memory."""

from collections.abc import Callable
from typing import Any

import torch

from ..alias import NPU, as_cpu, check_index

_NPU_KEY = torch._C.DispatchKey.PrivateUse1


def _seen_from_cpu(tensor: torch.Tensor) -> torch.Tensor:
    # TorchAir rebuilds tensors from an address; those of the CPU come out as npu tensors in memory of the CPU.
    if tensor.device.type == "npu" or torch._C._dispatch_keys(tensor).has(_NPU_KEY):
        return as_cpu(tensor)
    return tensor


def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:  # noqa: ARG001
    """Copy with conversion and broadcasting, whatever the devices."""
    _seen_from_cpu(self).copy_(_seen_from_cpu(src))
    return self


def foreach_copy_(self: list[torch.Tensor], src: list[torch.Tensor], non_blocking: bool = False) -> None:
    """Copy each tensor into its partner, whatever their devices; a capture sees the copies one by one."""
    for target, source in zip(self, src, strict=True):
        target.copy_(source, non_blocking)


def copy_from(self: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """The same with the arguments turned round, as PyTorch's dispatcher asks a backend."""
    return copy_(dst, self, non_blocking)


def copy_from_and_resize(self: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """Copy into a tensor that takes on the source's size."""
    return copy_(dst.resize_(self.size()), self)


def to_copy(
    self: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,  # noqa: ARG001
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """Convert device, dtype and memory format in one go; the result is always new memory."""
    target = self.device if device is None else device
    if target.type == "npu":
        check_index(target)
    elif target.type != "cpu":
        raise NotImplementedError(f"aten::_to_copy: cannot move a tensor from {self.device} to {target}")
    if self.layout is not torch.strided or (layout is not None and layout is not torch.strided):
        wanted_layout = self.layout if layout is None else layout
        raise NotImplementedError(f"aten::_to_copy: {wanted_layout} tensors are not supported on the host NPU")
    source = _seen_from_cpu(self)
    kept = torch.preserve_format if memory_format is None else memory_format
    wanted = source.dtype if dtype is None else dtype
    result = torch.empty_like(source, dtype=wanted, memory_format=kept)
    if target.type == "npu":
        result = torch.empty_strided(result.size(), result.stride(), dtype=wanted, device=NPU)
        as_cpu(result).copy_(source)
        return result
    if pin_memory:
        result = result.pin_memory()
    return result.copy_(source)


def local_scalar_dense(self: torch.Tensor) -> Any:
    """Read the one value of a tensor."""
    return torch.ops.aten._local_scalar_dense.default(as_cpu(self))


def clone(self: torch.Tensor, *, memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """Copy within the device."""
    return to_copy(self, memory_format=memory_format)


def equal(self: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare two tensors of the device."""
    if self.device != other.device:
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {self.device} and {other.device}")
    return torch.equal(as_cpu(self), as_cpu(other))


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::_copy_from": copy_from,
    "aten::_copy_from_and_resize": copy_from_and_resize,
    "aten::_local_scalar_dense": local_scalar_dense,
    "aten::_to_copy": to_copy,
    "aten::clone": clone,
    "aten::copy_": copy_,
    "aten::equal": equal,
}
# Made of other operators, which are dispatched, and recorded, one by one.
COMPOSED: dict[str, Callable[..., Any]] = {"aten::_foreach_copy_": foreach_copy_}
