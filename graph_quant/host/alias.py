"""CPU aliases of npu tensors: device memory of the host NPU is host memory, so both devices can view it."""

from threading import Lock
from typing import Any

import torch
from torch import Tensor

from ..releases.alternatives import is_non_overlapping_and_dense

_CPU = torch.device("cpu")
NPU = torch.device("npu")  # the current one
_memory_at = torch._C._construct_storage_from_data_pointer
_empty = torch.empty


class _Memory:
    """The memory of an npu storage as a CPU storage.

    PyTorch detects overlapping tensors by their storage: all aliases of an npu storage share this one.
    """

    __slots__ = ("aliases", "storage")

    def __init__(self, address: int, length: int) -> None:
        self.storage = _memory_at(address, _CPU, length)
        self.aliases: dict[Any, Tensor] = {}


# Keyed by address and length, and shared by every storage that is ever allocated there. Recently used ones are in the
# first of two generations; there are two so that an alias of a call is kept while its other arguments are looked up.
_generations: list[dict[tuple[int, int], _Memory]] = [{}, {}]
_changing = Lock()
_MAX_KEPT = 4096


def as_cpu(tensor: Tensor) -> Tensor:
    """Return a CPU tensor over the memory of an npu tensor: no copy, writes are visible through both.

    The memory belongs to the npu tensor and must outlive the alias.
    """
    if tensor._is_zerotensor():  # a gradient known to be zero, without memory of its own
        return torch.zeros(tensor.size(), dtype=tensor.dtype)
    if tensor.is_meta:
        return tensor
    alias = _view(_memory_of(tensor), tensor)
    if tensor.is_conj():
        return alias.conj()
    return torch._neg_view(alias) if tensor.is_neg() else alias


# The metadata of a tensor, apart from its memory.
Form = tuple[torch.Size, tuple[int, ...], torch.dtype]


def kept_alias(tensor: Tensor, form: tuple[Any, ...] | None = None) -> Tensor:
    """Return `as_cpu` of a tensor, cached: for callers that leave its shape and flags alone.

    The form of the tensor may be passed, followed by what a caller sets on aliases of its own.
    """
    if form is None:
        form = (tensor.size(), tensor.stride(), tensor.dtype)
    storage = tensor.untyped_storage()
    memory = _generations[0].get((storage.data_ptr(), storage.nbytes()))
    if memory is not None and not tensor.is_neg() and not tensor.is_conj():
        alias = memory.aliases.get((tensor.storage_offset(), form))
        if alias is not None:
            return alias
    return _keep(tensor, form)


def _keep(tensor: Tensor, form: tuple[Any, ...]) -> Tensor:
    # Empty tensors share one address but are different tensors; zero tensors have no storage.
    if not tensor.numel() or tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor() or tensor.is_meta:
        return as_cpu(tensor)
    memory = _memory_of(tensor)
    if len(memory.aliases) >= _MAX_KEPT:
        memory.aliases.clear()
    with torch.inference_mode(False):  # the alias may outlive the mode that its first user runs in
        alias = memory.aliases[tensor.storage_offset(), form] = _view(memory, tensor)
    return alias


def forget_aliases(tensor: Tensor) -> None:
    """Drop the cached aliases of a tensor's memory: an operator that failed may have resized one."""
    _memory_of(tensor).aliases.clear()


def _view(memory: _Memory, tensor: Tensor) -> Tensor:
    offset, size, stride = tensor.storage_offset(), tensor.size(), tensor.stride()
    return _empty(0, dtype=tensor.dtype).set_(memory.storage, offset, size, stride)  # type: ignore[call-overload, no-any-return]


def _memory_of(tensor: Tensor) -> _Memory:
    storage = tensor.untyped_storage()
    key = (storage.data_ptr(), storage.nbytes())
    memory = _generations[0].get(key)
    return _recall(key) if memory is None else memory


def _recall(key: tuple[int, int]) -> _Memory:
    with _changing:
        recent, earlier = _generations
        memory = recent.get(key) or earlier.get(key) or _Memory(*key)
        if len(recent) >= _MAX_KEPT:
            _generations[:] = [{}, recent]
            recent = _generations[0]
        recent[key] = memory
    return memory


def to_npu(tensor: Tensor) -> Tensor:
    """Return an npu tensor with the values, shape and strides of a CPU tensor."""
    size, stride = tensor.size(), tensor.stride()
    if tensor.is_contiguous() or tensor.numel() == 0 or is_non_overlapping_and_dense(tensor):
        moved = torch.empty_strided(size, stride, dtype=tensor.dtype, device=NPU)
        kept_alias(moved).copy_(tensor)
        return moved
    # Gaps and overlaps (expanded results, for one) are kept by moving the memory behind the tensor.
    return to_npu(tensor.as_strided((extent(tensor),), (1,))).as_strided(size, stride, 0)


def check_index(device: torch.device) -> None:
    """Raise if the device does not exist."""
    npu = torch.get_device_module("npu")
    if device.index not in (None, current := npu.current_device()):
        raise RuntimeError(f"Invalid NPU device ID: got {device}, but the host NPU is npu:{current} only")


def same_memory(tensor: Tensor, cpu_view: Tensor) -> Tensor:
    """Return the view of `tensor` that corresponds to `cpu_view`, a view of its CPU alias."""
    size, stride, offset = cpu_view.size(), cpu_view.stride(), cpu_view.storage_offset()
    if cpu_view.dtype == tensor.dtype:
        return tensor.as_strided(size, stride, offset)
    viewed = torch.empty(0, dtype=cpu_view.dtype, device=NPU)
    return viewed.set_(tensor.untyped_storage(), offset, size, stride)  # type: ignore[call-overload, no-any-return]


def extent(tensor: Tensor) -> int:
    """Return the number of elements from the first to the last one of a tensor in memory, both included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
