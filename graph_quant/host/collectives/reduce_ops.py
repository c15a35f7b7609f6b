"""Reductions: Gloo's own where it has the dtype and there is much, otherwise rank by rank in the dtype itself.

HCCL has no average: torch_npu sums, and divides the sum in its dtype.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from .gloo import Gloo
from .memory import as_bytes

KINDS = ("sum", "product", "min", "max", "avg")
NUMBERS = {kind: int(getattr(ReduceOp.RedOpType, kind.upper())) for kind in KINDS}
_NUMBERED = {number: kind for kind, number in NUMBERS.items()}
_GLOO = {
    "sum": ReduceOp.SUM,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "avg": ReduceOp.SUM,
}
_TORCH: dict[str, Callable[..., Tensor]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "avg": torch.add,
}
_GLOO_REDUCES = frozenset({torch.float32, torch.float16, torch.int32, torch.int64})
_RANK_BY_RANK = frozenset({torch.bfloat16, torch.int8, torch.int16})
_NO_PRODUCT = frozenset({torch.bfloat16, torch.int16})
# torch_npu lets HCCL reduce them as int32 where every rank keeps all.
_WIDENED = frozenset({torch.uint8, torch.bool})


@cache
def named(collective: str, operation: int, dtype: torch.dtype, uneven: bool = False) -> str:
    """Return the name of a reduction, which must be one that HCCL has for the dtype, for uneven parts perhaps."""
    name = _NUMBERED.get(int(operation))
    if name is None:
        known = ", ".join(KINDS)
        raise RuntimeError(f"hccl {collective}: the reduction must be one of {known}, got {_spelled(operation)}")
    widened = frozenset() if collective.startswith("reduce_scatter") else _WIDENED
    if dtype not in _GLOO_REDUCES | _RANK_BY_RANK | widened:
        raise RuntimeError(f"hccl {collective}: {dtype} cannot be reduced")
    if uneven and dtype == torch.int64:  # its HcclReduceScatterV has not what HcclReduceScatter has
        raise RuntimeError(f"hccl {collective}: uneven parts of {dtype} cannot be reduced")
    if name == "avg" and not dtype.is_floating_point:
        raise RuntimeError(f"hccl {collective}: an average must be of floats, got {dtype}")
    if name == "product" and (uneven or dtype in _NO_PRODUCT):
        what = "of uneven parts" if uneven else f"of {dtype}"
        raise RuntimeError(f"hccl {collective}: a reduction {what} must be sum, min, max or avg, got product")
    if dtype == torch.bool:  # a sum of truths is true, not two
        return {"sum": "max", "product": "min"}.get(name, name)
    return name


def _spelled(operation: int) -> str:
    names = {int(kind): name.lower() for name, kind in ReduceOp.RedOpType.__members__.items()}  # type: ignore[call-overload]
    return names.get(operation, str(operation))


def combine(into: Tensor, parts: Sequence[Tensor], name: str) -> None:
    """Reduce what each rank has, rank by rank from rank 0 on, rounding after each step."""
    *first, last = parts
    if first:
        _TORCH[name](reduce(_TORCH[name], first), last, out=into)
    else:
        into.copy_(last)
    _averaged(into, name, len(parts))


def all_reduce(gloo: Gloo, tensor: Tensor, name: str) -> None:
    """Reduce `tensor` over the ranks in place."""
    # Gloo's least and greatest of a number and a NaN is the one or the other, as the ranks stand.
    if tensor.dtype in _GLOO_REDUCES and not (tensor.is_floating_point() and name in ("min", "max")):
        gloo.allreduce([tensor], _GLOO[name]).wait()
        _averaged(tensor, name, gloo.size())
        return
    parts = [torch.empty_like(tensor) for _ in range(gloo.size())]
    gloo.allgather([as_bytes(part) for part in parts], as_bytes(tensor)).wait()
    combine(tensor, parts, name)


def _averaged(total: Tensor, name: str, ranks: int) -> Tensor:
    return total.div_(ranks) if name == "avg" else total
