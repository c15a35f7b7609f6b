"""ReduceOp.PREMUL_SUM: HCCL has none, so torch_npu multiplies what a rank gives by the factor, in place, and sums.

The factor stays on this side of c10d's operators, so it is used before them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup, ReduceOp

from .backend import HostHccl

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def serve(backend: Callable[[ProcessGroup], HostHccl]) -> None:
    """Have groups whose backend is this one multiply first, where the reduction says so."""
    for name, given in (
        ("allreduce", 0),
        ("allreduce_coalesced", 0),
        ("reduce", 0),
        ("reduce_scatter", 1),
        ("_reduce_scatter_base", 1),
        ("reduce_scatter_single", 1),
        ("reduce_scatter_tensor_coalesced", 1),
        ("reduce_scatter_single_coalesced", 1),
    ):
        setattr(ProcessGroup, name, _multiplying(name, getattr(ProcessGroup, name), given, backend))


def _multiplying(
    name: str, call: Callable[..., Any], given: int, backend: Callable[[ProcessGroup], HostHccl]
) -> Callable[..., Any]:
    def multiplied(group: ProcessGroup, *args: Any, **more: Any) -> Any:
        options = next((each for each in (*args, *more.values()) if hasattr(each, "reduceOp")), None)
        if options is None or options.reduceOp != ReduceOp.PREMUL_SUM or not _is_npu(args[given]):
            return call(group, *args, **more)
        operation = options.reduceOp
        backend(group).settle()  # it may be at work on the same tensors
        args = (*args[:given], _times(name, args[given], operation.factor), *args[given + 1 :])
        options.reduceOp = ReduceOp.SUM
        try:
            return call(group, *args, **more)
        finally:
            options.reduceOp = operation

    return multiplied


def _is_npu(given: Any) -> bool:
    return bool(given.device.type == "npu") if isinstance(given, Tensor) else any(map(_is_npu, given))


def _times(name: str, given: Any, factor: object) -> Any:
    """What is given times the factor: in place, but for lists of lists, which torch_npu flattens into a copy first."""
    if isinstance(given, Tensor):
        if not isinstance(factor, float) or given.dtype not in _DTYPES:
            raise RuntimeError(
                f"hccl {name}: premul_sum must be of a number and half, float or bfloat16 tensors, "
                f"got {type(factor).__name__} and {given.dtype}"
            )
        return given.mul_(factor)
    return [_times(name, [part.clone() for part in each] if isinstance(each, list) else each, factor) for each in given]
