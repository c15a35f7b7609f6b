"""npu_swiglu and its gradient: what may be passed, and what comes back.

The input has 1 to 8 dimensions, float32, float16 or bfloat16, and an even size in ``dim``. It may be empty, which the
operator's document denies and the device's own allows. The gradient that comes back is half as long in ``dim``.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.activation.swiglu import swiglu as compute
from graph_quant.reference.activation.swiglu import swiglu_backward as compute_backward
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


@operator("npu_swiglu_backward", reference=compute_backward)
def swiglu_backward(rules: Rules, grad_output: Tensor, x: Tensor, dim: int) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.dtype("grad_output", grad_output, (x.dtype,), ", the dtype of input")
    rules.rank("grad_output", grad_output, x.dim(), why=", as input has")
    for place, size in enumerate(halved(rules, "input", x, dim)):
        name = f"half of input.size({place})" if place == dim % x.dim() else f"input.size({place})"
        rules.equal(f"grad_output.size({place})", grad_output.size(place), name, size)
    return Plan((Result(tuple(x.shape), x.dtype),))
