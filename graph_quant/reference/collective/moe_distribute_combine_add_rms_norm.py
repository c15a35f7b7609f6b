"""npu_moe_distribute_combine_add_rms_norm: npu_moe_distribute_combine, a residual addition and an RMS norm.

The sum over experts and the sum with the residual are not rounded before the norm. y is rounded after the product with
rstd and again after the product with gamma. Tokens that x_active_mask excludes, which the device leaves undefined, are
zero here.
"""

from __future__ import annotations

import torch
from graph_quant.ge import kernel
from graph_quant.reference.collective.expert_layout import ExpertLayout
from graph_quant.reference.collective.moe_distribute_combine import sum_experts
from graph_quant.reference.norm.rms import reciprocal_rms, scale_with_two_roundings
from torch import Tensor


@kernel(
    "MoeDistributeCombineAddRmsNorm",
    idle=("assist_info", "tp_send_counts", "tp_rank_id", "group_tp", "global_bs", "shared_expert_num"),
    only={"tp_world_size": (0, 1)},
)
def combine_add_rms_norm(
    expand_x: Tensor,
    expert_ids: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    residual_x: Tensor,
    gamma: Tensor,
    x_active_mask: Tensor | None = None,
    shared_expert_x: Tensor | None = None,
    ori_x: Tensor | None = None,
    const_expert_alpha_1: Tensor | None = None,
    const_expert_alpha_2: Tensor | None = None,
    const_expert_v: Tensor | None = None,
    *,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    norm_eps: float = 1e-6,
    zero_expert_num: int = 0,
    copy_expert_num: int = 0,
    const_expert_num: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x)``, where x is the sum."""
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, 0, 0)
    specials = (zero_expert_num, copy_expert_num, const_expert_num)
    inputs = (expand_x, expert_ids, ep_send_counts, expert_scales, x_active_mask, shared_expert_x, ori_x)
    constants = (const_expert_alpha_1, const_expert_alpha_2, const_expert_v)
    combined = sum_experts(*inputs, *constants, group=group_ep, layout=layout, specials=specials)
    total = combined.unsqueeze(1) + residual_x.float()
    rstd = reciprocal_rms(total, 1, norm_eps)
    results = scale_with_two_roundings(total, rstd, gamma), rstd, total.to(expand_x.dtype)
    if x_active_mask is None:
        return results
    active = x_active_mask if x_active_mask.dim() == 1 else x_active_mask.any(1)
    y, rstd, x = (torch.where(active[:, None, None], result, torch.zeros_like(result)) for result in results)
    return y, rstd, x
