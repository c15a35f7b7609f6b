"""One memory, two devices: device memory of the host NPU is host memory, so a tensor can be seen from both."""

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
    size, stride = tensor.size(), tensor.stride()
    length = tensor.nbytes if tensor.is_contiguous() else _extent(tensor) * tensor.itemsize
    memory = _memory_at(tensor.data_ptr(), _CPU, length)
    return _empty(0, dtype=tensor.dtype).set_(memory, 0, size, stride)  # type: ignore[call-overload, no-any-return]


def to_npu(tensor: Tensor) -> Tensor:
    """Return an npu tensor with the values, shape and strides of a CPU tensor."""
    size, stride = tensor.size(), tensor.stride()
    if tensor.is_contiguous() or tensor.numel() == 0 or torch._prims_common.is_non_overlapping_and_dense(tensor):
        moved = torch.empty_strided(size, stride, dtype=tensor.dtype, device=NPU)
        as_cpu(moved).copy_(tensor)
        return moved
    # Gaps and overlaps (expanded results, for one) are kept by moving the memory behind the tensor.
    return to_npu(tensor.as_strided((_extent(tensor),), (1,))).as_strided(size, stride, 0)


def _extent(tensor: Tensor) -> int:
    """Return how many elements lie between the first and the last one of a tensor, both included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
