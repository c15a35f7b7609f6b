"""CPU views of npu tensors, for Gloo. The caller keeps the npu tensors alive."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..alias import kept_alias

# Dtypes that torch_npu maps to HCCL dtypes.
_DTYPES = frozenset({
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2,
})  # fmt: skip


def cpu_view(tensor: Tensor) -> Tensor:
    """Return a CPU tensor that aliases an npu tensor, which must outlive it."""
    return tensor if tensor.is_cpu else kept_alias(tensor)


def check_dense(collective: str, tensors: Iterable[Tensor]) -> None:
    """Refuse what HCCL refuses: unsupported dtypes, sparse tensors and non-contiguous tensors."""
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


def check_pairs(collective: str, outputs: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Refuse outputs whose dtype differs from their inputs', and tensors that HCCL refuses."""
    check_dense(collective, [*outputs, *sources])
    for output, source in zip(outputs, sources, strict=False):
        if output.dtype != source.dtype:
            raise RuntimeError(
                f"hccl {collective}: outputs must have the dtype of the inputs, got {output.dtype} and {source.dtype}"
            )


def as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a contiguous tensor: data that is only moved needs no dtype that Gloo supports."""
    return tensor.view(-1).view(torch.uint8)
