"""npu_rms_norm and npu_gemma_rms_norm: argument rules and results.

input has one to eight dimensions. gamma has the shape of the last dimensions, which are normalised, and the dtype of
input; npu_rms_norm also takes a float32 gamma with half precision. Results are y, like input, and rstd in float32 with
size 1 in the normalised dimensions.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.norm.rms import check_epsilon, check_weight, like, rstd_of
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm import rms_norm as reference
from torch import Tensor


@operator("npu_rms_norm", reference=reference.rms_norm, chips=A2_A3_950)
def rms_norm(rules: Rules, x: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.dtype("gamma", gamma, (x.dtype, torch.float32), f" beside input of {x.dtype}")
    check_weight(rules, "gamma", gamma, "input", x)
    check_epsilon(rules, epsilon)
    return Plan((like(x), rstd_of(x, gamma)))


@operator("npu_gemma_rms_norm", reference=reference.gemma_rms_norm, chips=A2_A3_950)
def gemma_rms_norm(rules: Rules, x: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.dtype("gamma", gamma, (x.dtype,), ", the dtype of input")
    check_weight(rules, "gamma", gamma, "input", x)
    check_epsilon(rules, epsilon)
    return Plan((like(x), rstd_of(x, gamma)))
