"""npu_add_rms_norm and its kin: what may be passed, and what comes back.

x1 and x2 are alike, of one to eight dimensions, none of them empty; gamma is of their dtype and has the shape of the
last dimensions, those that are normalised. Results are y and x1 + x2, of x1's shape and dtype, and rstd in float32 with
1 for each dimension that is normalised; in which order, and whether they are written over x1 and x2, is the operator's.
"""

from __future__ import annotations

import torch
from graph_quant.meta.norm.rms import check_epsilon, check_sum, like, rstd_of
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.norm import add_rms_norm as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@operator("npu_add_rms_norm", reference=reference.add_rms_norm)
def add_rms_norm(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    check_sum(rules, x1, x2, gamma)
    check_epsilon(rules, epsilon)
    return Plan((like(x1), rstd_of(x1, gamma), like(x1)))


@operator("npu_add_rms_norm_cast", reference=reference.add_rms_norm_cast)
def add_rms_norm_cast(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """The same, with y in float32 too."""
    check_sum(rules, x1, x2, gamma, HALVES)
    check_epsilon(rules, epsilon)
    return Plan((like(x1, torch.float32), like(x1), rstd_of(x1, gamma), like(x1)))


@operator("npu_add_rms_norm_v2", reference=reference.add_rms_norm_v2, results=lambda made: made[:1])
@operator("npu_add_rms_norm_v2_functional", reference=reference.add_rms_norm_v2_functional)
def add_rms_norm_v2(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """The same in place: y is written over x1 and the sum over x2; the functional form gives both back."""
    check_sum(rules, x1, x2, gamma)
    check_epsilon(rules, epsilon)
    return Plan((rstd_of(x1, gamma), like(x1), like(x2)))
