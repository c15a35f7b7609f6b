"""Copies between and within devices. All of them stay in host memory."""

from collections.abc import Callable
from typing import Any

import torch

from ...chip import check_conversion
from ...reference.narrow_casts import convert
from ..alias import NPU, as_cpu, check_index

_NPU_KEY = torch._C.DispatchKey.PrivateUse1


def _to_cpu_alias(tensor: torch.Tensor) -> torch.Tensor:
    # TorchAir rebuilds tensors from an address: CPU tensors become npu tensors over CPU memory.
    if tensor.device.type == "npu" or torch._C._dispatch_keys(tensor).has(_NPU_KEY):
        return as_cpu(tensor)
    return tensor


def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:  # noqa: ARG001
    """Copy with conversion and broadcasting, between any devices."""
    check_conversion("aten::copy_", src.dtype, self.dtype)
    _to_cpu_alias(self).copy_(convert(_to_cpu_alias(src), self.dtype))
    return self


def foreach_copy_(self: list[torch.Tensor], src: list[torch.Tensor], non_blocking: bool = False) -> None:
    """Copy tensors pairwise, between any devices; a capture records the copies one by one."""
    for target, source in zip(self, src, strict=True):
        target.copy_(source, non_blocking)


def copy_from(self: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Call copy_ with swapped arguments: the form in which PyTorch's dispatcher calls a backend."""
    return copy_(dst, self, non_blocking)


def copy_from_and_resize(self: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """Resize the target to the source's size and copy."""
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
    """Convert device, dtype and memory format at once; the result is always new memory."""
    target = self.device if device is None else device
    if target.type == "npu":
        check_index(target)
    elif target.type != "cpu":
        raise NotImplementedError(f"aten::_to_copy: cannot move a tensor from {self.device} to {target}")
    if self.layout is not torch.strided or (layout is not None and layout is not torch.strided):
        requested_layout = self.layout if layout is None else layout
        raise NotImplementedError(f"aten::_to_copy: {requested_layout} tensors are not supported on the host NPU")
    source = _to_cpu_alias(self)
    resolved_format = torch.preserve_format if memory_format is None else memory_format
    resolved_dtype = source.dtype if dtype is None else dtype
    check_conversion("aten::_to_copy", source.dtype, resolved_dtype)
    result = torch.empty_like(source, dtype=resolved_dtype, memory_format=resolved_format)
    if target.type == "npu":
        result = torch.empty_strided(result.size(), result.stride(), dtype=resolved_dtype, device=NPU)
        as_cpu(result).copy_(convert(source, resolved_dtype))
        return result
    if pin_memory:
        result = result.pin_memory()
    return result.copy_(convert(source, resolved_dtype))


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
# Composed of other operators, which are dispatched, and captured, one by one.
COMPOSED: dict[str, Callable[..., Any]] = {"aten::_foreach_copy_": foreach_copy_}
