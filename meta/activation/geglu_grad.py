"""The gradient of npu_geglu, which torch_npu's autograd calls.

grad_output and gelu, the second result of npu_geglu, have half the size of input in ``dim`` and its dtype. All may be
empty.
"""

from __future__ import annotations

from graph_quant.meta.activation.swiglu import check_half
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
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.one_of("approximate", approximate, (0, 1))
    for name, tensor in (("grad_output", dy), ("gelu", gelu)):
        check_half(rules, name, tensor, x, dim)
    return Plan((Result(tuple(x.shape), x.dtype),))
