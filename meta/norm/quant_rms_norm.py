"""ATB's _npu_quant_rms_norm: RMS norm of the last dimension, quantised to int8 with one scale and offset."""

from __future__ import annotations

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operator)
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.norm.quant_rms_norm import quant_rms_norm as reference
from torch import Tensor

MOST_DIMS = 8
# The kernel moves a row in parts of 32 bytes.
WIDTHS = 16


@operator("atb::_npu_quant_rms_norm", reference=reference)
def quant_rms_norm(
    rules: Rules,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    output: Tensor,
    eps: float,  # noqa: ARG001
) -> Plan:
    """Check a call against the rules of the library and return its plan."""
    rules.dtype("self", x, (torch.float16, torch.bfloat16))
    rules.rank("self", x, 1, MOST_DIMS)
    rules.not_empty("self", x)
    width = x.size(-1)
    rules.require(width % WIDTHS == 0, lambda: f"self.size(-1) must be a multiple of {WIDTHS}, got {width}")
    rules.dtype("gamma", gamma, (x.dtype,), ", the dtype of self")
    rules.rank("gamma", gamma, 1, MOST_DIMS)
    rules.equal("gamma.size(-1)", gamma.size(-1), "self.size(-1)", width)
    for dim in range(gamma.dim() - 1):
        rules.equal(f"gamma.size({dim})", gamma.size(dim), "1", 1)
    rules.like("beta", beta, "gamma", gamma)
    for name, one, dtype in (("scale", scale, x.dtype), ("offset", offset, torch.int8)):
        rules.dtype(name, one, (dtype,))
        rules.rank(name, one, 1)
        rules.equal(f"{name}.size(0)", one.size(0), "1", 1)
    rules.dtype("output", output, (torch.int8,))
    rules.same_shape("output", output, "self", x)
    return Plan(())
