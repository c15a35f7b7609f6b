"""One memory, two devices: device memory of the host NPU is host memory, so a tensor can be seen from both."""

from typing import Any

import torch
from torch import Tensor

_CPU = torch.device("cpu")
NPU = torch.device("npu", 0)
_memory_at = torch._C._construct_storage_from_data_pointer
_empty = torch.empty


def as_cpu(tensor: Tensor) -> Tensor:
    """Return a CPU tensor over the memory of an npu tensor: no copy, writes are seen on both sides.

    The memory belongs to the npu tensor and must outlive the alias.
    """
    if tensor._is_zerotensor():  # a gradient known to be zero, without memory of its own
        return torch.zeros(tensor.size(), dtype=tensor.dtype)
    size, stride = tensor.size(), tensor.stride()
    length = tensor.nbytes if tensor.is_contiguous() else extent(tensor) * tensor.itemsize
    memory = _memory_at(tensor.data_ptr(), _CPU, length)
    alias: Tensor = _empty(0, dtype=tensor.dtype).set_(memory, 0, size, stride)  # type: ignore[call-overload]
    if tensor.is_conj():
        return alias.conj()
    return torch._neg_view(alias) if tensor.is_neg() else alias


# An alias is a pointer with a shape: it serves every tensor that ever lies at that place in that shape.
_kept: dict[Any, Tensor] = {}
_MOST_KEPT = 4096


def kept_alias(tensor: Tensor) -> Tensor:
    """Return `as_cpu` of a tensor, perhaps made earlier: for callers that leave its shape and flags alone."""
    dtype = tensor.dtype
    if dtype.is_complex or tensor.is_neg():
        return as_cpu(tensor)
    place = (tensor.data_ptr(), tensor.size(), tensor.stride(), dtype)
    alias = _kept.get(place)
    if alias is None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        alias = _kept[place] = as_cpu(tensor)
    return alias


def to_npu(tensor: Tensor) -> Tensor:
    """Return an npu tensor with the values, shape and strides of a CPU tensor."""
    size, stride = tensor.size(), tensor.stride()
    if (
        tensor.is_contiguous()
        or tensor.numel() == 0
        or torch._prims_common.is_non_overlapping_and_dense_or_false(tensor)
    ):
        moved = torch.empty_strided(size, stride, dtype=tensor.dtype, device=NPU)
        as_cpu(moved).copy_(tensor)
        return moved
    # Gaps and overlaps (expanded results, for one) are kept by moving the memory behind the tensor.
    return to_npu(tensor.as_strided((extent(tensor),), (1,))).as_strided(size, stride, 0)


def check_index(device: torch.device) -> None:
    """Refuse devices that are not there, as a machine with one NPU does."""
    if device.index not in (None, 0):
        raise RuntimeError(f"Invalid NPU device ID: got {device}, but the host NPU is npu:0 only")


def same_memory(tensor: Tensor, alias: Tensor, looks_at: Tensor) -> Tensor:
    """Return the npu tensor that sees of `tensor` what `looks_at` sees of its CPU alias."""
    offset = (tensor.storage_offset() * tensor.itemsize) // looks_at.itemsize + looks_at.storage_offset()
    if looks_at.dtype == alias.dtype:
        return tensor.as_strided(looks_at.size(), looks_at.stride(), offset)
    viewed = torch.empty(0, dtype=looks_at.dtype, device=NPU)
    return viewed.set_(tensor.untyped_storage(), offset, looks_at.size(), looks_at.stride())  # type: ignore[call-overload, no-any-return]


def extent(tensor: Tensor) -> int:
    """Return how many elements lie between the first and the last one of a tensor, both included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
