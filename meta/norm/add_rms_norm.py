"""npu_add_rms_norm and its variants: argument rules and results.

x1 and x2 have the same shape and dtype, one to eight dimensions, none of them empty; gamma has their dtype and the
shape of the last dimensions, which are normalised. Results are y and x1 + x2, like x1, and rstd in float32 with size 1
in the normalised dimensions. The variants differ in the order of results and in writing over x1 and x2.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.norm.rms import check_epsilon, check_sum, like, rstd_of
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.norm import add_rms_norm as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@operator("npu_add_rms_norm", reference=reference.add_rms_norm, chips=A2_A3_950)
def add_rms_norm(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    check_sum(rules, x1, x2, gamma, may_lack_rows=True)
    check_epsilon(rules, epsilon)
    return Plan((like(x1), rstd_of(x1, gamma), like(x1)))


@operator("npu_add_rms_norm_cast", reference=reference.add_rms_norm_cast, chips=A2_A3_950)
def add_rms_norm_cast(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """Check a call that also returns y in float32; return its plan."""
    check_sum(rules, x1, x2, gamma, HALVES)
    check_epsilon(rules, epsilon)
    return Plan((like(x1, torch.float32), like(x1), rstd_of(x1, gamma), like(x1)))


@operator(
    "npu_add_rms_norm_v2",
    reference=reference.add_rms_norm_v2,
    results=lambda outputs: outputs[:1],
    chips=A2_A3_950,
)
@operator("npu_add_rms_norm_v2_functional", reference=reference.add_rms_norm_v2_functional, chips=A2_A3_950)
def add_rms_norm_v2(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """Check a call that writes y over x1 and the sum over x2; the functional form returns both."""
    check_sum(rules, x1, x2, gamma)
    check_epsilon(rules, epsilon)
    return Plan((rstd_of(x1, gamma), like(x1), like(x2)))
