"""npu_geglu: what may be passed, and what comes back.

input is of one to eight dimensions, float32, float16 or bfloat16, and even along ``dim``. approximate is 0 or 1. Both
results have half of that dimension.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.geglu import geglu as reference
from torch import Tensor


@operator("npu_geglu", reference=reference)
def geglu(rules: Rules, x: Tensor, dim: int, approximate: int, activate_left: bool) -> Plan:  # noqa: ARG001
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.require(-x.dim() <= dim < x.dim(), lambda: f"dim must lie in [{-x.dim()}, {x.dim() - 1}], got {dim}")
    rules.one_of("approximate", approximate, (0, 1))
    size = x.size(dim)
    rules.require(size % 2 == 0, lambda: f"input.size({dim}) must be even, got {size}")
    shape = list(x.shape)
    shape[dim] = size // 2
    return Plan((Result(tuple(shape), x.dtype), Result(tuple(shape), x.dtype)))
