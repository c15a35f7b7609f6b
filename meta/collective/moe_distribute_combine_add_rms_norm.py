"""npu_moe_distribute_combine_add_rms_norm: argument rules and results.

npu_moe_distribute_combine_v2 for bfloat16 without ranks of shared experts, then the RMS norm of its sum with residual_x
(BS, 1, H), times gamma (H). Only A3 has a kernel.
"""

from __future__ import annotations

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.collective.matmul_rules import check_none
from graph_quant.meta.collective.moe_distribute_combine import check_info, moe_distribute_combine_v2
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.moe_distribute_combine_add_rms_norm import combine_add_rms_norm
from torch import Tensor


@operator("npu_moe_distribute_combine_add_rms_norm", reference=combine_add_rms_norm)
def moe_distribute_combine_add_rms_norm(
    rules: Rules,
    expand_x: Tensor,
    expert_ids: Tensor,
    expand_idx: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    residual_x: Tensor,
    gamma: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    tp_send_counts: Tensor | None,
    x_active_mask: Tensor | None,
    activation_scale: Tensor | None,
    weight_scale: Tensor | None,
    group_list: Tensor | None,
    expand_scales: Tensor | None,
    shared_expert_x: Tensor | None,
    elastic_info: Tensor | None,
    ori_x: Tensor | None,
    const_expert_alpha_1: Tensor | None,
    const_expert_alpha_2: Tensor | None,
    const_expert_v: Tensor | None,
    group_tp: str,
    tp_world_size: int,
    tp_rank_id: int,
    expert_shard_type: int,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    global_bs: int,
    out_dtype: int,
    comm_quant_mode: int,
    group_list_type: int,
    comm_alg: str,
    norm_eps: float,  # noqa: ARG001  (any)
    zero_expert_num: int,
    copy_expert_num: int,
    const_expert_num: int,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    if not is_a3():
        rules.refuse("it must run on A3, which alone has a kernel for it, got Ascend A2")
    unused = {"activation_scale": activation_scale, "weight_scale": weight_scale, "group_list": group_list}
    check_none(rules, ", as this operator has no use for it", **unused)
    numbers = {"out_dtype": out_dtype, "comm_quant_mode": comm_quant_mode, "group_list_type": group_list_type}
    for name, number in {**numbers, "shared_expert_rank_num": shared_expert_rank_num}.items():
        rules.one_of(name, number, (0,))
    rules.one_of("shared_expert_num", shared_expert_num, (0, 1))
    rules.dtype("expand_x", expand_x, (torch.bfloat16,))
    check_info(rules, "expand_idx", expand_idx)
    assert moe_distribute_combine_v2.rules is not None
    combined = moe_distribute_combine_v2.rules(
        rules, expand_x, expert_ids, expand_idx, ep_send_counts, expert_scales,
        group_ep, ep_world_size, ep_rank_id, moe_expert_num,
        tp_send_counts, x_active_mask, expand_scales, shared_expert_x, elastic_info, ori_x,
        const_expert_alpha_1, const_expert_alpha_2, const_expert_v, None,
        group_tp, tp_world_size, tp_rank_id, expert_shard_type, shared_expert_num, shared_expert_rank_num,
        global_bs, comm_quant_mode, comm_alg, zero_expert_num, copy_expert_num, const_expert_num,
    )  # fmt: skip
    (row,) = combined.results
    assert isinstance(row, Result)
    tokens, width = row.shape
    rules.dtype("residual_x", residual_x, (expand_x.dtype,), ", as expand_x is")
    rules.rank("residual_x", residual_x, 3)
    for dim, (size, name) in enumerate(((tokens, "expert_ids.size(0)"), (1, "one"), (width, "expand_x.size(1)"))):
        rules.equal(f"residual_x.size({dim})", residual_x.size(dim), name, size)
    rules.dtype("gamma", gamma, (expand_x.dtype,), ", as expand_x is")
    rules.rank("gamma", gamma, 1)
    rules.equal("gamma.size(0)", gamma.size(0), "expand_x.size(1)", width)
    rows = Result((tokens, 1, width), row.dtype)
    return Plan((rows, Result((tokens, 1, 1), torch.float32), rows))
