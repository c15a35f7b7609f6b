"""npu_moe_gating_top_k_backward, which torch_npu's autograd calls: what may be passed, and what comes back.

x_norm is the result ``out`` of npu_moe_gating_top_k with out_flag, (tokens, experts) of float32; grad_y and expertIdx
are (tokens, k).
"""

from __future__ import annotations

import torch
from graph_quant.meta.moe.gating_top_k import MOST_EXPERTS
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.moe.gating_top_k import SIGMOID, SOFTMAX
from graph_quant.reference.moe.gating_top_k_backward import gating_top_k_backward as reference
from torch import Tensor


@operator("npu_moe_gating_top_k_backward", reference=reference)
def gating_top_k_backward(
    rules: Rules,
    x_norm: Tensor,
    grad_y: Tensor,
    expert_idx: Tensor,
    renorm: int,
    norm_type: int,
    routed_scaling_factor: float,  # noqa: ARG001
    eps: float,  # noqa: ARG001
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x_norm", x_norm, (torch.float32,))
    rules.rank("x_norm", x_norm, 2)
    tokens, experts = x_norm.shape
    rules.require(experts <= MOST_EXPERTS, lambda: f"x_norm.size(1) must be at most {MOST_EXPERTS}, got {experts}")
    rules.dtype("grad_y", grad_y, FLOATS)
    rules.rank("grad_y", grad_y, 2)
    rules.equal("grad_y.size(0)", grad_y.size(0), "x_norm.size(0)", tokens)
    rules.dtype("expertIdx", expert_idx, (torch.int32,))
    rules.rank("expertIdx", expert_idx, 2)
    for dim in range(2):
        rules.equal(f"expertIdx.size({dim})", expert_idx.size(dim), f"grad_y.size({dim})", grad_y.size(dim))
    rules.one_of("renorm", renorm, (0, 1))
    rules.one_of("norm_type", norm_type, (SOFTMAX, SIGMOID), why=" on A2 and A3")
    return Plan((Result((tokens, experts), grad_y.dtype),))
