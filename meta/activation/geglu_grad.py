"""The gradient of npu_geglu, which torch_npu's autograd calls.

grad_output and gelu, the second result of npu_geglu, have half of input along ``dim`` and its dtype. All may be empty.
"""

from __future__ import annotations

from graph_quant.meta.activation.swiglu import halved
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.geglu_grad import geglu_grad as reference
from torch import Tensor


@operator("npu_geglu_grad", reference=reference)
def geglu_grad(
    rules: Rules,
    dy: Tensor,
    x: Tensor,
    gelu: Tensor,
    dim: int,
    approximate: int,
    activate_left: bool,  # noqa: ARG001
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.one_of("approximate", approximate, (0, 1))
    half = halved(rules, "input", x, dim)
    for name, tensor in (("grad_output", dy), ("gelu", gelu)):
        rules.dtype(name, tensor, (x.dtype,), ", the dtype of input")
        rules.rank(name, tensor, x.dim(), why=", as input has")
        for place, size in enumerate(half):
            of = f"half of input.size({place})" if place == dim % x.dim() else f"input.size({place})"
            rules.equal(f"{name}.size({place})", tensor.size(place), of, size)
    return Plan((Result(tuple(x.shape), x.dtype),))
