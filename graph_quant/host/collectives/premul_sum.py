"""ReduceOp.PREMUL_SUM. HCCL has no such reduction: torch_npu multiplies the input by alpha in place, then sums.

c10d's operators do not pass alpha on, so the product is computed before they are called.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup, ReduceOp

from ...releases.alternatives import premul_factor
from .backend import HostHccl

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def install(backend: Callable[[ProcessGroup], HostHccl]) -> None:
    """Patch ProcessGroup's reductions to multiply npu tensors first if the reduction is PREMUL_SUM."""
    for name, position in (
        ("allreduce", 0),
        ("allreduce_coalesced", 0),
        ("reduce", 0),
        ("reduce_scatter", 1),
        ("_reduce_scatter_base", 1),
        ("reduce_scatter_single", 1),
        ("reduce_scatter_tensor_coalesced", 1),
        ("reduce_scatter_single_coalesced", 1),
    ):
        if hasattr(ProcessGroup, name):
            setattr(ProcessGroup, name, _wrap(name, getattr(ProcessGroup, name), position, backend))


def _wrap(
    name: str, call: Callable[..., Any], position: int, backend: Callable[[ProcessGroup], HostHccl]
) -> Callable[..., Any]:
    def multiplied(group: ProcessGroup, *args: Any, **more: Any) -> Any:
        options = next((argument for argument in (*args, *more.values()) if hasattr(argument, "reduceOp")), None)
        if options is None or options.reduceOp != ReduceOp.PREMUL_SUM or not _is_npu(args[position]):
            return call(group, *args, **more)
        operation = options.reduceOp
        backend(group).drain()  # earlier collectives may still write to these tensors
        args = (*args[:position], _premultiply(name, args[position], premul_factor(operation)), *args[position + 1 :])
        options.reduceOp = ReduceOp.SUM
        try:
            return call(group, *args, **more)
        finally:
            options.reduceOp = operation

    return multiplied


def _is_npu(tensors: Any) -> bool:
    return bool(tensors.device.type == "npu") if isinstance(tensors, Tensor) else any(map(_is_npu, tensors))


def _premultiply(name: str, tensors: Any, alpha: object) -> Any:
    """Multiply by alpha in place; lists of lists are copied first, as torch_npu copies when it flattens them."""
    if isinstance(tensors, Tensor):
        if not isinstance(alpha, float) or tensors.dtype not in _DTYPES:
            raise RuntimeError(
                f"hccl {name}: premul_sum must be of a number and half, float or bfloat16 tensors, "
                f"got {type(alpha).__name__} and {tensors.dtype}"
            )
        return tensors.mul_(alpha)
    return [
        _premultiply(name, [part.clone() for part in entry] if isinstance(entry, list) else entry, alpha)
        for entry in tensors
    ]
