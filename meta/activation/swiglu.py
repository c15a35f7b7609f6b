"""npu_swiglu: what may be passed, and what comes back.

The input has 1 to 8 dimensions, float32, float16 or bfloat16, and an even size in ``dim``. It may be empty, which the
operator's document denies and the device's own allows.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.activation.swiglu import swiglu as compute
from torch import Tensor


def halved(rules: Rules, name: str, x: Tensor, dim: int) -> tuple[Size, ...]:
    """The shape of ``x`` with half the size in ``dim``, which must be even."""
    rank = x.dim()
    rules.require(-rank <= dim < rank, lambda: f"dim must lie in [{-rank}, {rank - 1}], got {dim}")
    size = x.size(dim)
    rules.require(size % 2 == 0, lambda: f"{name}.size({dim}) must be even, got {size}")
    shape = list(x.shape)
    shape[dim] = size // 2
    return tuple(shape)


@operator("npu_swiglu", reference=compute)
def swiglu(rules: Rules, x: Tensor, dim: int) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    return Plan((Result(halved(rules, "input", x, dim), x.dtype),))
