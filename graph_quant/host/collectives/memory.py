"""Npu tensors as Gloo takes them: CPU tensors over the same memory, which whoever uses them keeps alive."""

from collections.abc import Iterable

import torch
from torch import Tensor

from ..alias import kept_alias


def shared(tensor: Tensor) -> Tensor:
    """Return a CPU tensor over the memory of an npu tensor, which must outlive it."""
    return tensor if tensor.is_cpu else kept_alias(tensor)


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
