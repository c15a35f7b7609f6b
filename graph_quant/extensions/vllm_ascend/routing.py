"""moe_gating_top_k of vllm-ascend: torch_npu's npu_moe_gating_top_k without a table of experts."""

from __future__ import annotations

from graph_quant.extensions.reuse import plan_as
from graph_quant.meta import Plan, Rules, operator
from graph_quant.meta.moe.gating_top_k import gating_top_k as npu_moe_gating_top_k
from graph_quant.reference.moe.gating_top_k import gating_top_k
from torch import Tensor


def moe_gating_top_k(
    x: Tensor,
    k: int,
    k_group: int,
    group_count: int,
    group_select_mode: int,
    renorm: int,
    norm_type: int,
    out_flag: bool,
    routed_scaling_factor: float,
    eps: float,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(y, expert_idx, out)``."""
    return gating_top_k(
        x,
        bias,
        k=k,
        k_group=k_group,
        group_count=group_count,
        group_select_mode=group_select_mode,
        renorm=renorm,
        norm_type=norm_type,
        out_flag=out_flag,
        routed_scaling_factor=routed_scaling_factor,
        eps=eps,
    )


@operator("_C_ascend::moe_gating_top_k", reference=moe_gating_top_k)
def rules_of_moe_gating_top_k(
    rules: Rules,
    x: Tensor,
    k: int,
    k_group: int,
    group_count: int,
    group_select_mode: int,
    renorm: int,
    norm_type: int,
    out_flag: bool,
    routed_scaling_factor: float,
    eps: float,
    bias: Tensor | None,
) -> Plan:
    """Return the plan of torch_npu's operator, with the arguments in the order of the extension."""
    groups = k_group, group_count, group_select_mode
    options = renorm, norm_type, out_flag, routed_scaling_factor, eps
    return plan_as(npu_moe_gating_top_k, rules, x, k, bias, None, None, *groups, *options)
