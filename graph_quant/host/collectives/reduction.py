"""Reductions: Gloo's own where it has the dtype and there is much, otherwise rank by rank in the dtype itself."""

from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from .gloo import Gloo
from .memory import as_bytes

KINDS = ("sum", "product", "min", "max")
NUMBERS = {kind: int(getattr(ReduceOp.RedOpType, kind.upper())) for kind in KINDS}
_NUMBERED = {number: kind for kind, number in NUMBERS.items()}
_GLOO = {"sum": ReduceOp.SUM, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX}
_TORCH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
}
_GLOO_REDUCES = frozenset({torch.float32, torch.float64, torch.float16, torch.int32, torch.int64})
_RANK_BY_RANK = frozenset({torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.bool})


def named(collective: str, operation: int, dtype: torch.dtype) -> str:
    """Return the name of a reduction, which must be one that HCCL has for the dtype."""
    name = _NUMBERED.get(int(operation))
    if name is None:
        known = ", ".join(KINDS)
        raise RuntimeError(f"hccl {collective}: the reduction must be one of {known}, got {_spelled(operation)}")
    if dtype not in _GLOO_REDUCES | _RANK_BY_RANK:
        raise RuntimeError(f"hccl {collective}: {dtype} cannot be reduced")
    if dtype == torch.bool:  # a sum of truths is true, not two
        return {"sum": "max", "product": "min"}.get(name, name)
    return name


def _spelled(operation: int) -> str:
    names = {int(kind): name.lower() for name, kind in ReduceOp.RedOpType.__members__.items()}  # type: ignore[call-overload]
    return names.get(operation, str(operation))


def combine(into: Tensor, parts: Sequence[Tensor], name: str) -> None:
    """Reduce what each rank has, rank by rank from rank 0 on, rounding after each step."""
    into.copy_(reduce(_TORCH[name], parts))


def all_reduce(gloo: Gloo, tensor: Tensor, name: str) -> None:
    """Reduce `tensor` over the ranks in place."""
    if tensor.dtype in _GLOO_REDUCES:
        gloo.allreduce([tensor], _GLOO[name]).wait()
        return
    parts = [torch.empty_like(tensor) for _ in range(gloo.size())]
    gloo.allgather([as_bytes(part) for part in parts], as_bytes(tensor)).wait()
    combine(tensor, parts, name)
