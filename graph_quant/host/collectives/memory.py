"""Npu tensors as Gloo takes them: CPU tensors over the same memory, which whoever uses them keeps alive."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..alias import kept_alias

# Those that torch_npu has a name of HCCL's for.
_DTYPES = frozenset({
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2,
})  # fmt: skip


def shared(tensor: Tensor) -> Tensor:
    """Return a CPU tensor over the memory of an npu tensor, which must outlive it."""
    return tensor if tensor.is_cpu else kept_alias(tensor)


def check_dense(collective: str, tensors: Iterable[Tensor]) -> None:
    """Refuse what HCCL refuses: dtypes that it has not, sparse tensors and tensors with gaps."""
    for tensor in tensors:
        if tensor.dtype not in _DTYPES:
            raise RuntimeError(f"hccl {collective}: HCCL has no {tensor.dtype}")
        if tensor.layout != torch.strided:
            raise RuntimeError(f"hccl {collective}: tensors must be dense, got {tensor.layout}")
        if not tensor.is_contiguous():
            raise RuntimeError(
                f"hccl {collective}: tensors must be contiguous, got strides {tuple(tensor.stride())} "
                f"for shape {tuple(tensor.size())}"
            )


def check_pairs(collective: str, outputs: Sequence[Tensor], givens: Sequence[Tensor]) -> None:
    """Refuse outputs of another dtype than what they come from, and tensors that HCCL refuses."""
    check_dense(collective, [*outputs, *givens])
    for output, given in zip(outputs, givens, strict=False):
        if output.dtype != given.dtype:
            raise RuntimeError(
                f"hccl {collective}: outputs must have the dtype of the inputs, got {output.dtype} and {given.dtype}"
            )


def as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a contiguous tensor: what is only moved needs no dtype that Gloo knows."""
    return tensor.view(-1).view(torch.uint8)
