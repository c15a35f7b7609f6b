"""HCCL on the host: torch.distributed's backend of that name, over Gloo and the memory of npu tensors."""

from .registry import register

__all__ = ["register"]
