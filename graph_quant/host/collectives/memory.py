"""Npu tensors as Gloo takes them: CPU tensors over the same memory, which they keep alive while work is under way."""

import ctypes
from collections.abc import Iterable

import torch
from torch import Tensor


def shared(tensor: Tensor) -> Tensor:
    """Return a CPU tensor over the memory of an npu tensor; it owns the memory together with the npu tensor."""
    if tensor.device.type == "cpu":
        return tensor
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return torch.empty(tensor.size(), dtype=tensor.dtype)
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    memory.owner = storage  # type: ignore[attr-defined]
    with torch.inference_mode(False):  # another thread may write to it
        seen = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
        offset, size, stride = tensor.storage_offset(), tensor.size(), tensor.stride()
        return torch.empty(0, dtype=tensor.dtype).set_(seen, offset, size, stride)  # type: ignore[call-overload, no-any-return]


def check_dense(collective: str, tensors: Iterable[Tensor]) -> None:
    """Refuse what HCCL refuses: sparse tensors and tensors with gaps."""
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise RuntimeError(f"hccl {collective}: tensors must be dense, got {tensor.layout}")
        if not tensor.is_contiguous():
            raise RuntimeError(
                f"hccl {collective}: tensors must be contiguous, got strides {tuple(tensor.stride())} "
                f"for shape {tuple(tensor.size())}"
            )


def as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a contiguous tensor: what is only moved needs no dtype that Gloo knows."""
    return tensor.view(-1).view(torch.uint8)
