"""npu_moe_distribute_dispatch and its second version: argument rules and results.

x (BS, H) are tokens, expert_ids (BS, K) their experts. A rank receives up to A = global_bs * min(local experts, K)
rows; the rank of a shared expert receives all tokens of the ranks that use it. With quant_mode 2 rows are int8 with a
scale each, and scales (shared experts + moe_expert_num, H) are multiplied to the rows of an expert before. x of int32,
eight packed int4 each, is sent unchanged, with scales (BS,).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.collective.matmul_rules import HALVES, check_none
from graph_quant.meta.collective.moe_distribute_rules import (
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
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.collective.expert_layout import ExpertLayout
from graph_quant.reference.collective.moe_distribute_dispatch import dispatch, select_sent_weights
from torch import Tensor


@dataclass(frozen=True)
class DispatchPlan(Plan):
    """``rows`` is the most rows that a rank receives, ``counts`` and ``assist`` the sizes of two index results.

    ``specials`` is the number of experts that compute nothing; only the ``second`` version has them.
    """

    rows: Size
    counts: Size
    assist: Size
    specials: int = 0
    second: bool = False


@operator("npu_moe_distribute_dispatch_v2", reference=dispatch)
def moe_distribute_dispatch_v2(
    rules: Rules,
    x: Tensor,
    expert_ids: Tensor,
    group_ep: str,  # noqa: ARG001  (used by the reference)
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    scales: Tensor | None,
    x_active_mask: Tensor | None,
    expert_scales: Tensor | None,
    elastic_info: Tensor | None,
    performance_info: Tensor | None,
    group_tp: str,  # noqa: ARG001  (ignored by the device)
    tp_world_size: int,
    tp_rank_id: int,  # noqa: ARG001  (ignored by the device)
    expert_shard_type: int,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    quant_mode: int,
    global_bs: int,
    expert_token_nums_type: int,
    comm_alg: str,
    zero_expert_num: int,
    copy_expert_num: int,
    const_expert_num: int,
    y_dtype: int | None,
    x_dtype: int | None,
    scales_dtype: int | None,
) -> DispatchPlan:
    """Check a call against the documented rules and return its plan."""
    check_none(rules, ", as this version has no use for it", elastic_info=elastic_info)
    check_none(rules, ": the host measures no waiting", performance_info=performance_info)
    check_none(rules, " on A2 and A3", y_dtype=y_dtype, x_dtype=x_dtype, scales_dtype=scales_dtype)
    known = ("", "fullmesh_v1", "fullmesh_v2") if is_a3() else ("", "fullmesh")
    rules.one_of("comm_alg", comm_alg, known, ": other ways are not computed on the host")
    shared = (expert_shard_type, shared_expert_num, shared_expert_rank_num)
    layout = check_ranks(rules, ep_world_size, ep_rank_id, moe_expert_num, tp_world_size, shared)
    check_specials(rules, zero_expert_num, copy_expert_num, const_expert_num)
    specials = zero_expert_num + copy_expert_num + const_expert_num
    packed = not is_a3() and comm_alg == "fullmesh"
    rules.dtype("x", x, (*HALVES, torch.int32) if packed else HALVES)
    check_tokens(rules, "x", x, expert_ids, moe_expert_num + specials, limits(comm_alg))
    _check_quantisation(rules, x, scales, quant_mode, layout)
    check_mask(rules, x_active_mask, expert_ids)
    rows, counts = _check_sizes(rules, x, expert_ids, expert_scales, global_bs, layout, second=True)
    rules.one_of("expert_token_nums_type", expert_token_nums_type, (0, 1))
    assist = torch.sym_max(expert_ids.size(0) * expert_ids.size(1), rows * 128)
    sizes = (rows, counts, assist)
    plan = _plan(x, quant_mode, layout.local, tp_world_size, expert_scales, sizes)
    return replace(plan, specials=specials, second=True)


@operator("npu_moe_distribute_dispatch", reference=dispatch)
def moe_distribute_dispatch(
    rules: Rules,
    x: Tensor,
    expert_ids: Tensor,
    group_ep: str,  # noqa: ARG001  (used by the reference)
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    scales: Tensor | None,
    x_active_mask: Tensor | None,
    expert_scales: Tensor | None,
    group_tp: str,  # noqa: ARG001  (ignored by the device)
    tp_world_size: int,
    tp_rank_id: int,  # noqa: ARG001  (ignored by the device)
    expert_shard_type: int,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    quant_mode: int,
    global_bs: int,
    expert_token_nums_type: int,
) -> DispatchPlan:
    """Check a call against the documented rules and return its plan."""
    shared = (expert_shard_type, shared_expert_num, shared_expert_rank_num)
    layout = check_ranks_of_first(rules, ep_world_size, ep_rank_id, moe_expert_num, tp_world_size, shared)
    check_none(rules, ", as this version has no use for it", x_active_mask=x_active_mask)
    rules.dtype("x", x, HALVES)
    check_tokens(rules, "x", x, expert_ids, moe_expert_num, limits_of_first())
    _check_quantisation(rules, x, scales, quant_mode, layout)
    rows, counts = _check_sizes(rules, x, expert_ids, expert_scales, global_bs, layout, second=False)
    rules.one_of("expert_token_nums_type", expert_token_nums_type, (0, 1))
    assist = expert_ids.size(0) * expert_ids.size(1)
    weights = select_sent_weights(expert_scales, second=False)
    return _plan(x, quant_mode, layout.local, tp_world_size, weights, (rows, counts, assist))


def _plan(
    x: Tensor,
    quant_mode: int,
    local: int,
    tp_world_size: int,
    expert_scales: Tensor | None,
    sizes: tuple[Size, Size, Size],
) -> DispatchPlan:
    rows, counts, assist = sizes
    return DispatchPlan(
        (
            Result((rows, x.size(1)), x.dtype if quant_mode == 0 else torch.int8),
            Result((rows,), torch.float32),
            Result((assist,), torch.int32),
            Result((local,), torch.int64),
            Result((counts,), torch.int32),
            Result((tp_world_size,), torch.int32),
            Result((0 if expert_scales is None else rows,), torch.float32),
        ),
        rows,
        counts,
        assist,
    )


def _check_quantisation(rules: Rules, x: Tensor, scales: Tensor | None, quant_mode: int, layout: ExpertLayout) -> None:
    rules.one_of("quant_mode", quant_mode, (0,) if x.dtype == torch.int32 else (0, 2), f" for x of {x.dtype}")
    if x.dtype == torch.int32:
        rules.require(scales is not None, lambda: "scales must be given for x of torch.int32, got None")
        assert scales is not None
        rules.dtype("scales", scales, (torch.float32,))
        rules.rank("scales", scales, 1, why=" for x of torch.int32")
        rules.equal("scales.size(0)", scales.size(0), "x.size(0)", x.size(0))
    elif scales is not None:
        rules.require(quant_mode == 2, lambda: f"scales must be None for quant_mode {quant_mode}, got one")
        rules.dtype("scales", scales, (torch.float32,))
        rules.rank("scales", scales, 2)
        experts = "moe_expert_num and the shared experts" if layout.shared else "moe_expert_num"
        rules.equal("scales.size(0)", scales.size(0), experts, layout.experts + layout.shared)
        rules.equal("scales.size(1)", scales.size(1), "x.size(1)", x.size(1))


def _check_sizes(
    rules: Rules,
    x: Tensor,
    expert_ids: Tensor,
    weights: Tensor | None,
    global_bs: int,
    layout: ExpertLayout,
    second: bool,
) -> tuple[Size, Size]:
    """Check the other arguments and return the most rows that a rank receives, and the number of counts."""
    rules.equal("x.size(0)", x.size(0), "expert_ids.size(0)", expert_ids.size(0))
    if weights is not None:
        rules.require(not (second and is_a3()), lambda: "expert_scales must be None on A3, got one")
        check_weights(rules, "expert_scales", weights, expert_ids)
    check_batch(rules, global_bs, layout.ranks)
    tokens, chosen = global_bs or x.size(0) * layout.ranks, expert_ids.size(1)
    extra = 0 if select_sent_weights(weights, second) is None else tokens * 2 * chosen * (layout.ranks // 8)
    return layout.rows(tokens, chosen, second), layout.ranks * layout.local + extra
