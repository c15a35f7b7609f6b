"""npu_moe_distribute_combine and its second version: argument rules and results.

expand_x (A, H) are the rows that npu_moe_distribute_dispatch returned, after the experts; ep_send_counts and
assist_info_for_combine (expand_idx in the first version) are other results of it. expert_ids and expert_scales are
(BS, K), the result is (BS, H).
"""

from __future__ import annotations

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.collective.matmul_rules import HALVES, check_none
from graph_quant.meta.collective.moe_distribute_rules import (
    Limits,
    check_batch,
    check_mask,
    check_ranks,
    check_ranks_of_first,
    check_specials,
    check_tokens,
    check_weights,
    limits,
    limits_of_first,
)
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.moe_distribute_combine import combine, combine_node
from torch import Tensor


@operator("npu_moe_distribute_combine_v2", reference=combine_node)
def moe_distribute_combine_v2(
    rules: Rules,
    expand_x: Tensor,
    expert_ids: Tensor,
    assist_info_for_combine: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,  # noqa: ARG001  (used by the reference)
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    tp_send_counts: Tensor | None,  # noqa: ARG001  (ignored by the device)
    x_active_mask: Tensor | None,
    expand_scales: Tensor | None,
    shared_expert_x: Tensor | None,
    elastic_info: Tensor | None,
    ori_x: Tensor | None,
    const_expert_alpha_1: Tensor | None,
    const_expert_alpha_2: Tensor | None,
    const_expert_v: Tensor | None,
    performance_info: Tensor | None,
    group_tp: str,  # noqa: ARG001  (ignored by the device)
    tp_world_size: int,
    tp_rank_id: int,  # noqa: ARG001  (ignored by the device)
    expert_shard_type: int,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    global_bs: int,
    comm_quant_mode: int,
    comm_alg: str,
    zero_expert_num: int,
    copy_expert_num: int,
    const_expert_num: int,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    check_none(rules, ", as this version has no use for it", elastic_info=elastic_info)
    check_none(rules, ": the host measures no waiting", performance_info=performance_info)
    rules.one_of("comm_alg", comm_alg, ("",) if is_a3() else ("", "fullmesh"), ": other ways are not computed here")
    check_specials(rules, zero_expert_num, copy_expert_num, const_expert_num)
    shared = (expert_shard_type, shared_expert_num, shared_expert_rank_num)
    check_ranks(rules, ep_world_size, ep_rank_id, moe_expert_num, tp_world_size, shared)
    experts = moe_expert_num + zero_expert_num + copy_expert_num + const_expert_num
    _check(rules, expand_x, expert_ids, ep_send_counts, expert_scales, expand_scales, experts, limits())
    check_mask(rules, x_active_mask, expert_ids)
    check_info(rules, "assist_info_for_combine", assist_info_for_combine)
    check_batch(rules, global_bs, ep_world_size)
    _check_transport(rules, comm_quant_mode)
    like = (expert_ids.size(0), expand_x.size(1))
    if shared_expert_rank_num:
        check_none(rules, " beside ranks of shared experts", shared_expert_x=shared_expert_x)
    _check_shared(rules, shared_expert_x, expand_x, like[0])
    needed = {"ori_x": copy_expert_num or const_expert_num}
    _check_rows(rules, expand_x, needed, like[0], ori_x=ori_x)
    constants = {
        "const_expert_alpha_1": const_expert_alpha_1,
        "const_expert_alpha_2": const_expert_alpha_2,
        "const_expert_v": const_expert_v,
    }
    _check_rows(rules, expand_x, dict.fromkeys(constants, const_expert_num), const_expert_num, **constants)
    return Plan((Result(like, expand_x.dtype),))


@operator("npu_moe_distribute_combine", reference=combine)
def moe_distribute_combine(
    rules: Rules,
    expand_x: Tensor,
    expert_ids: Tensor,
    expand_idx: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,  # noqa: ARG001  (used by the reference)
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    tp_send_counts: Tensor | None,  # noqa: ARG001  (ignored by the device)
    x_active_mask: Tensor | None,
    activation_scale: Tensor | None,
    weight_scale: Tensor | None,
    group_list: Tensor | None,
    expand_scales: Tensor | None,
    shared_expert_x: Tensor | None,
    group_tp: str,  # noqa: ARG001  (ignored by the device)
    tp_world_size: int,
    tp_rank_id: int,  # noqa: ARG001  (ignored by the device)
    expert_shard_type: int,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    global_bs: int,
    out_dtype: int,
    comm_quant_mode: int,
    group_list_type: int,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    unused = {"activation_scale": activation_scale, "weight_scale": weight_scale, "group_list": group_list}
    unused |= {"x_active_mask": x_active_mask, "shared_expert_x": shared_expert_x}
    check_none(rules, ", as this version has no use for it", **unused)
    rules.one_of("out_dtype", out_dtype, (0,))
    rules.one_of("group_list_type", group_list_type, (0,))
    shared = (expert_shard_type, shared_expert_num, shared_expert_rank_num)
    check_ranks_of_first(rules, ep_world_size, ep_rank_id, moe_expert_num, tp_world_size, shared)
    most = limits_of_first()
    _check(rules, expand_x, expert_ids, ep_send_counts, expert_scales, expand_scales, moe_expert_num, most)
    check_info(rules, "expand_idx", expand_idx)
    check_batch(rules, global_bs, ep_world_size)
    _check_transport(rules, comm_quant_mode)
    return Plan((Result((expert_ids.size(0), expand_x.size(1)), expand_x.dtype),))


def _check(
    rules: Rules,
    expand_x: Tensor,
    expert_ids: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    expand_scales: Tensor | None,
    experts: int,
    most: Limits,
) -> None:
    rules.dtype("expand_x", expand_x, HALVES)
    check_tokens(rules, "expand_x", expand_x, expert_ids, experts, most)
    check_info(rules, "ep_send_counts", ep_send_counts)
    check_weights(rules, "expert_scales", expert_scales, expert_ids)
    if is_a3():  # its kernels do not read what the dispatch returns
        if expand_scales is not None:
            rules.dtype("expand_scales", expand_scales, (torch.float32,))
        return
    rules.require(expand_scales is not None, lambda: "expand_scales must be given on A2, got None")
    assert expand_scales is not None
    rules.dtype("expand_scales", expand_scales, (torch.float32,))
    rules.rank("expand_scales", expand_scales, 1)
    rules.equal("expand_scales.size(0)", expand_scales.size(0), "expand_x.size(0)", expand_x.size(0))


def _check_shared(rules: Rules, shared: Tensor | None, like: Tensor, rows: int) -> None:
    """Check the rows of shared experts: (BS, H), or BS in two dimensions."""
    if not is_a3():
        check_none(rules, " on A2", shared_expert_x=shared)
    if shared is None:
        return
    rules.dtype("shared_expert_x", shared, (like.dtype,), ", as expand_x is")
    rules.rank("shared_expert_x", shared, 2, 3)
    product = shared.size(0) if shared.dim() == 2 else shared.size(0) * shared.size(1)
    rules.equal("the rows of shared_expert_x", product, "expert_ids.size(0)", rows)
    rules.equal("shared_expert_x.size(-1)", shared.size(-1), "expand_x.size(1)", like.size(1))


def check_info(rules: Rules, name: str, info: Tensor) -> None:
    """Check an int32 vector that npu_moe_distribute_dispatch returned."""
    rules.dtype(name, info, (torch.int32,))
    rules.rank(name, info, 1)


def _check_transport(rules: Rules, comm_quant_mode: int) -> None:
    if is_a3():
        rules.one_of("comm_quant_mode", comm_quant_mode, (0, 2))
    else:
        rules.one_of("comm_quant_mode", comm_quant_mode, (0,), ": int8 goes by way of hierarchy alone on A2")


def _check_rows(rules: Rules, like: Tensor, needed: dict[str, int], rows: object, **tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        rules.require(tensor is not None or not needed[name], lambda: f"{name} must be given, got None")  # noqa: B023
        if tensor is not None:
            rules.dtype(name, tensor, (like.dtype,), ", as expand_x is")
            rules.rank(name, tensor, 2)
            rules.equal(f"{name}.size(0)", tensor.size(0), "its rows", rows)  # type: ignore[arg-type]
            rules.equal(f"{name}.size(1)", tensor.size(1), "expand_x.size(1)", like.size(1))
