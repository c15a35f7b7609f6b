"""npu_rms_norm_dynamic_mx_quant and npu_add_rms_norm_dynamic_mx_quant: argument rules and results.

Only Ascend 950 has them. x is float16 or bfloat16 of one to seven dimensions, or x1 and x2 of one shape are. gamma and
beta are vectors of size x.size(-1), both in the dtype of x or both float32. Blocks of 32 elements run along the last
axis. rstd is an empty tensor: the device computes it for gradients alone.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.norm.rms import check_terms, like
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.quant.dynamic_mx_quant import (
    MxPlan,
    check_rounding,
    find_target,
    stored_scales,
    stored_values,
)
from graph_quant.meta.rules import Rules
from graph_quant.reference.norm.rms_norm_dynamic_mx_quant import add_rms_norm_dynamic_mx_quant as add_reference
from graph_quant.reference.norm.rms_norm_dynamic_mx_quant import rms_norm_dynamic_mx_quant as reference
from graph_quant.reference.quant.mx_blocks import MxRule
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
_BLOCK = 32
_NO_RSTD = Result((0,), torch.float32)


@operator("npu_rms_norm_dynamic_mx_quant", reference=reference, chips=(ASCEND_950,))
def rms_norm_dynamic_mx_quant(
    rules: Rules,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor | None,
    epsilon: float,  # noqa: ARG001
    scale_alg: int,
    round_mode: str,
    dst_type: int | torch.dtype,
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x", x, HALVES)
    rule = _check(rules, "x", x, gamma, beta, scale_alg, round_mode, dst_type)
    y = stored_values(rules, x.shape, rule.target, "x")
    return MxPlan((y, Result(stored_scales(x.shape, -1, _BLOCK), torch.uint8), _NO_RSTD), rule)


@operator("npu_add_rms_norm_dynamic_mx_quant", reference=add_reference, chips=(ASCEND_950,))
def add_rms_norm_dynamic_mx_quant(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    beta: Tensor | None,
    epsilon: float,  # noqa: ARG001
    scale_alg: int,
    round_mode: str,
    dst_type: int | torch.dtype,
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    check_terms(rules, x1, x2, HALVES)
    rule = _check(rules, "x1", x1, gamma, beta, scale_alg, round_mode, dst_type)
    y = stored_values(rules, x1.shape, rule.target, "x1")
    return MxPlan((y, like(x1), Result(stored_scales(x1.shape, -1, _BLOCK), torch.uint8), _NO_RSTD), rule)


def _check(
    rules: Rules,
    name: str,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor | None,
    scale_alg: int,
    round_mode: str,
    dst_type: int | torch.dtype,
) -> MxRule:
    rules.rank(name, x, 1, 7)
    rules.at_least(f"{name}.size(-1)", x.size(-1), 1)
    rules.dtype("gamma", gamma, (x.dtype, torch.float32), f" beside {name} of {x.dtype}")
    for weight_name, weight in (("gamma", gamma), ("beta", beta)):
        if weight is not None:
            rules.rank(weight_name, weight, 1)
            rules.equal(f"{weight_name}.size(0)", weight.size(0), f"{name}.size(-1)", x.size(-1))
    if beta is not None:
        rules.dtype("beta", beta, (gamma.dtype,), ", the dtype of gamma")
    target = find_target(rules, "dst_type", dst_type)
    rules.one_of("scale_alg", scale_alg, (0, 1) if target.dtype is not None else (0,), f" for {target.name}")
    check_rounding(rules, target, round_mode, scale_alg)
    return MxRule(target, scale_alg, round_mode)
