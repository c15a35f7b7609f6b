"""Reduction operations: Gloo's own for large tensors of dtypes that it reduces, otherwise rank by rank in the dtype.

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
# torch_npu reduces them as int32 in collectives whose result every rank keeps whole.
_WIDENED = frozenset({torch.uint8, torch.bool})


@cache
def checked_kind(collective: str, operation: int, dtype: torch.dtype, uneven: bool = False) -> str:
    """Return the name of a reduction; raise if HCCL does not have it for this dtype, or for uneven parts."""
    name = _NUMBERED.get(int(operation))
    if name is None:
        known = ", ".join(KINDS)
        raise RuntimeError(f"hccl {collective}: the reduction must be one of {known}, got {_op_name(operation)}")
    widened = frozenset() if collective.startswith("reduce_scatter") else _WIDENED
    if dtype not in _GLOO_REDUCES | _RANK_BY_RANK | widened:
        raise RuntimeError(f"hccl {collective}: {dtype} cannot be reduced")
    if uneven and dtype == torch.int64:  # HcclReduceScatterV lacks it, HcclReduceScatter has it
        raise RuntimeError(f"hccl {collective}: uneven parts of {dtype} cannot be reduced")
    if name == "avg" and not dtype.is_floating_point:
        raise RuntimeError(f"hccl {collective}: an average must be of floats, got {dtype}")
    if name == "product" and (uneven or dtype in _NO_PRODUCT):
        what = "of uneven parts" if uneven else f"of {dtype}"
        raise RuntimeError(f"hccl {collective}: a reduction {what} must be sum, min, max or avg, got product")
    if dtype == torch.bool:  # a sum of bools is a bool
        return {"sum": "max", "product": "min"}.get(name, name)
    return name


def _op_name(operation: int) -> str:
    names = {int(kind): name.lower() for name, kind in ReduceOp.RedOpType.__members__.items()}  # type: ignore[call-overload]
    return names.get(operation, str(operation))


def combine(into: Tensor, parts: Sequence[Tensor], name: str) -> None:
    """Reduce the ranks' parts into ``into``, from rank 0 on, rounding after each step."""
    *first, last = parts
    if first:
        _TORCH[name](reduce(_TORCH[name], first), last, out=into)
    else:
        into.copy_(last)
    _divide_average(into, name, len(parts))


def all_reduce(gloo: Gloo, tensor: Tensor, name: str) -> None:
    """Reduce `tensor` over the ranks in place."""
    # In Gloo's min and max, whether NaN wins depends on the order of the ranks.
    if tensor.dtype in _GLOO_REDUCES and not (tensor.is_floating_point() and name in ("min", "max")):
        gloo.allreduce([tensor], _GLOO[name]).wait()
        _divide_average(tensor, name, gloo.size())
        return
    parts = [torch.empty_like(tensor) for _ in range(gloo.size())]
    gloo.allgather([as_bytes(part) for part in parts], as_bytes(tensor)).wait()
    combine(tensor, parts, name)


def _divide_average(total: Tensor, name: str, ranks: int) -> Tensor:
    return total.div_(ranks) if name == "avg" else total
