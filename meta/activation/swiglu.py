"""npu_swiglu and its gradient: argument rules and results.

The input has 1 to 8 dimensions, float32, float16 or bfloat16, and an even size in ``dim``. It may be empty: the
operator's document denies that, the document of the kernel allows it. grad_output has half the size in ``dim``.
"""

from __future__ import annotations

from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.activation.swiglu import swiglu as compute
from graph_quant.reference.activation.swiglu import swiglu_backward as compute_backward
from torch import Tensor


def halve_shape(rules: Rules, name: str, x: Tensor, dim: int) -> tuple[Size, ...]:
    """The shape of ``x`` with half the size in ``dim``, which must be even."""
    rank = x.dim()
    rules.require(-rank <= dim < rank, lambda: f"dim must lie in [{-rank}, {rank - 1}], got {dim}")
    size = x.size(dim)
    rules.require(size % 2 == 0, lambda: f"{name}.size({dim}) must be even, got {size}")
    shape = list(x.shape)
    shape[dim] = size // 2
    return tuple(shape)


def check_half(rules: Rules, name: str, tensor: Tensor, x: Tensor, dim: int) -> None:
    """Check that ``tensor`` has the dtype of the input ``x`` and half its size in ``dim``."""
    shape = halve_shape(rules, "input", x, dim)
    rules.dtype(name, tensor, (x.dtype,), ", the dtype of input")
    rules.rank(name, tensor, x.dim(), why=", as input has")
    for axis, size in enumerate(shape):
        expected = f"half of input.size({axis})" if axis == dim % x.dim() else f"input.size({axis})"
        rules.equal(f"{name}.size({axis})", tensor.size(axis), expected, size)


@operator("npu_swiglu", reference=compute, chips=A2_A3_950)
def swiglu(rules: Rules, x: Tensor, dim: int) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    return Plan((Result(halve_shape(rules, "input", x, dim), x.dtype),))


@operator("npu_swiglu_backward", reference=compute_backward, chips=A2_A3_950)
def swiglu_backward(rules: Rules, grad_output: Tensor, x: Tensor, dim: int) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    check_half(rules, "grad_output", grad_output, x, dim)
    return Plan((Result(tuple(x.shape), x.dtype),))
