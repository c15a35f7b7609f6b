"""npu_moe_distribute_combine: rows back to where npu_moe_distribute_dispatch took their tokens from, and added up.

For each token, over its experts in their order: the row times its weight, added in float32, each rounded; the sum is
rounded once, at the end. An expert that computes nothing adds nothing, or the token itself, or
``alpha_1 * token + alpha_2 * v``. What shared experts gave for a token is added last, without a weight: that of their
ranks, then shared_expert_x. Tokens that x_active_mask leaves out are zero here.

With comm_quant_mode 2 rows travel as int8, with a scale for every eight numbers: ``s = max|x| * (1 / 127)`` in float32,
rounded half to even of ``x / s``, by way of float16; back, times s in the dtype of the rows, rounded to that dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import torch
from graph_quant.ge import kernel
from graph_quant.reference.collective.expert_layout import ExpertLayout
from graph_quant.reference.collective.expert_routing import compute_route, sort_by_rank
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor


def _infer(expand_x: Tensor, expert_ids: Tensor, *_: object) -> Tensor:
    return expand_x.new_empty((expert_ids.size(0), expand_x.size(1)), dtype=torch.float32)


@opaque(_infer, ordered=True)
def combined_rows(
    expand_x: Tensor,
    expert_ids: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    mask: Tensor | None,
    shared: Tensor | None,
    ori_x: Tensor | None,
    constants: Sequence[Tensor],
    group: str,
    numbers: Sequence[int],
    second: bool,
) -> Tensor:
    """The tokens after their experts, not rounded.

    ``numbers`` are those of the layout, of special experts, and comm_quant_mode.
    """
    layout, (zero, copy, const, comm_quant_mode) = ExpertLayout(*numbers[:5]), numbers[5:]
    ranks, experts = layout.ranks, layout.experts
    op = "npu_moe_distribute_combine_v2" if second else "npu_moe_distribute_combine"
    way = compute_route(op, group, layout, zero + copy + const, expert_ids, mask, second)
    ends = ep_send_counts[: ranks * layout.local].to(torch.int64)
    counts = torch.diff(ends, prepend=ends.new_zeros(1)).view(layout.local, ranks).T
    if int(counts.min()) < 0 or int(ends[-1]) > expand_x.size(0):
        raise Refusal(
            f"{op}: ep_send_counts must be what npu_moe_distribute_dispatch gave, got {ep_send_counts.tolist()[:16]}"
        )
    sent = sort_by_rank(expand_x[: int(ends[-1])], counts.tolist())
    if comm_quant_mode == 2:
        sent = _through_int8(sent)
    came = way.group.all_to_all(sent.contiguous(), [int(number) for number in counts.sum(1)], way.sends)
    tokens, chosen = expert_ids.shape
    rows = came.new_zeros((tokens * way.chosen, came.size(1)))
    rows[way.places] = came
    adds = torch.zeros(tokens * way.chosen, dtype=torch.bool)
    adds[way.places] = True
    rows, adds = rows.view(tokens, way.chosen, -1).float(), adds.view(tokens, way.chosen)
    _add_specials(rows[:, :chosen], adds[:, :chosen], expert_ids, mask, ori_x, constants, (experts + zero, copy, const))
    total = torch.zeros_like(rows[:, 0])
    for place in range(way.chosen):
        added = rows[:, place] * expert_scales[:, place, None] if place < chosen else rows[:, place]
        total = torch.where(adds[:, place, None], total + added, total)
    if shared is not None:
        added = total + shared.reshape(total.shape).float()
        active = mask if mask is None or mask.dim() == 1 else mask.any(1)
        total = added if active is None else torch.where(active[:, None], added, total)
    return total


def _through_int8(rows: Tensor) -> Tensor:
    """What arrives of rows that travel as int8."""
    width = rows.size(1)
    blocks = torch.nn.functional.pad(rows.float(), (0, -width % 8)).unflatten(1, (-1, 8))
    scale = blocks.abs().amax(2, keepdim=True) * torch.tensor(1 / 127, dtype=torch.float32)
    whole = (blocks / scale).half().round().nan_to_num(nan=0.0).clamp(-128, 127)
    return (whole.float() * scale.to(rows.dtype).float()).flatten(1)[:, :width].to(rows.dtype)


def _add_specials(
    rows: Tensor,
    adds: Tensor,
    expert_ids: Tensor,
    mask: Tensor | None,
    ori_x: Tensor | None,
    constants: Sequence[Tensor],
    kinds: tuple[int, int, int],
) -> None:
    """Fill in what experts that compute nothing give."""
    first, copy, const = kinds
    active = torch.ones_like(adds) if mask is None else (mask if mask.dim() == 2 else mask[:, None].expand_as(adds))
    if ori_x is None:
        return
    copied = active & (expert_ids >= first) & (expert_ids < first + copy)
    tokens = ori_x.float()[:, None].expand_as(rows)
    rows[copied], adds[copied] = tokens[copied], True
    if const:
        fixed = active & (expert_ids >= first + copy)
        which = (expert_ids[fixed] - first - copy).to(torch.int64)
        one, other, value = (each.float()[which] for each in constants)
        rows[fixed], adds[fixed] = one * tokens[fixed] + other * value, True


def combine_v2(
    expand_x: Tensor,
    expert_ids: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    x_active_mask: Tensor | None,
    shared_expert_x: Tensor | None,
    ori_x: Tensor | None,
    const_expert_alpha_1: Tensor | None,
    const_expert_alpha_2: Tensor | None,
    const_expert_v: Tensor | None,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    comm_quant_mode: int,
    zero_expert_num: int,
    copy_expert_num: int,
    const_expert_num: int,
) -> Tensor:
    """The second version, of which experts may compute nothing."""
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    numbers = [*astuple(layout), zero_expert_num, copy_expert_num, const_expert_num, comm_quant_mode]
    given = [each for each in (const_expert_alpha_1, const_expert_alpha_2, const_expert_v) if each is not None]
    tensors = (expand_x, expert_ids, ep_send_counts, expert_scales, x_active_mask, shared_expert_x, ori_x, given)
    return combined_rows(*tensors, group_ep, numbers, True).to(expand_x.dtype)


def combine(
    expand_x: Tensor,
    expert_ids: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    x_active_mask: Tensor | None,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    comm_quant_mode: int,
) -> Tensor:
    """The first version."""
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    numbers = [*astuple(layout), 0, 0, 0, comm_quant_mode]
    tensors = (expand_x, expert_ids, ep_send_counts, expert_scales, x_active_mask, None, None)
    return combined_rows(*tensors, [], group_ep, numbers, False).to(expand_x.dtype)


# Which row came from where is worked out anew: what dispatch says of it is for the device.
@kernel(
    "MoeDistributeCombine",
    "MoeDistributeCombineV2",
    idle=(
        "expand_idx",
        "assist_info_for_combine",
        "expand_scales",
        "tp_send_counts",
        "group_tp",
        "tp_rank_id",
        "global_bs",
    ),
    only={"tp_world_size": (0, 1)},
)
def combine_node(
    expand_x: Tensor,
    expert_ids: Tensor,
    ep_send_counts: Tensor,
    expert_scales: Tensor,
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
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    comm_quant_mode: int = 0,
    comm_alg: str | None = None,
    zero_expert_num: int = 0,
    copy_expert_num: int = 0,
    const_expert_num: int = 0,
) -> Tensor:
    """Only the second version says by which algorithm ranks communicate."""
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    numbers = [*astuple(layout), zero_expert_num, copy_expert_num, const_expert_num, comm_quant_mode]
    given = [each for each in (const_expert_alpha_1, const_expert_alpha_2, const_expert_v) if each is not None]
    tensors = (expand_x, expert_ids, ep_send_counts, expert_scales, x_active_mask, shared_expert_x, ori_x, given)
    return combined_rows(*tensors, group_ep, numbers, comm_alg is not None).to(expand_x.dtype)
