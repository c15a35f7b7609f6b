"""npu_moe_distribute_combine: sends expert rows back to the ranks of their tokens and sums them.

The sum over a token's experts, in their order, is accumulated in float32: row times weight, each step rounded; the
total is rounded once. A zero expert adds nothing, a copy expert the token itself, a constant expert
``alpha_1 * token + alpha_2 * v``. Rows of shared experts are added last and without a weight: those of their ranks,
then shared_expert_x. Tokens that x_active_mask excludes are zero here.

With comm_quant_mode 2 rows are sent as int8 with a scale per eight elements: ``s = max|x| * (1 / 127)`` in float32, and
``x / s`` rounded half to even from float16. The receiver multiplies by s in the dtype of the rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

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
    """The sums in float32.

    ``numbers`` are the fields of the layout, the three counts of special experts, and comm_quant_mode.
    """
    layout, (zero, copy, const, comm_quant_mode) = ExpertLayout(*numbers[:5]), numbers[5:]
    ranks, experts = layout.ranks, layout.experts
    op = "npu_moe_distribute_combine_v2" if second else "npu_moe_distribute_combine"
    route = compute_route(op, group, layout, zero + copy + const, expert_ids, mask, second)
    ends = ep_send_counts[: ranks * layout.local].to(torch.int64)
    counts = torch.diff(ends, prepend=ends.new_zeros(1)).view(layout.local, ranks).T
    if int(counts.min()) < 0 or int(ends[-1]) > expand_x.size(0):
        raise Refusal(
            f"{op}: ep_send_counts must be what npu_moe_distribute_dispatch gave, got {ep_send_counts.tolist()[:16]}"
        )
    sent = sort_by_rank(expand_x[: int(ends[-1])], counts.tolist())
    if comm_quant_mode == 2:
        sent = _round_trip_int8(sent)
    received = route.group.all_to_all(sent.contiguous(), [int(number) for number in counts.sum(1)], route.sends)
    tokens, chosen = expert_ids.shape
    rows = received.new_zeros((tokens * route.chosen, received.size(1)))
    rows[route.indices] = received
    contributes = torch.zeros(tokens * route.chosen, dtype=torch.bool)
    contributes[route.indices] = True
    rows, contributes = rows.view(tokens, route.chosen, -1).float(), contributes.view(tokens, route.chosen)
    kinds = (experts + zero, copy, const)
    _fill_special_experts(rows[:, :chosen], contributes[:, :chosen], expert_ids, mask, ori_x, constants, kinds)
    total = torch.zeros_like(rows[:, 0])
    for column in range(route.chosen):
        term = rows[:, column] * expert_scales[:, column, None] if column < chosen else rows[:, column]
        total = torch.where(contributes[:, column, None], total + term, total)
    if shared is not None:
        with_shared = total + shared.reshape(total.shape).float()
        active = mask if mask is None or mask.dim() == 1 else mask.any(1)
        total = with_shared if active is None else torch.where(active[:, None], with_shared, total)
    return total


def _round_trip_int8(rows: Tensor) -> Tensor:
    """``rows`` quantised to int8 and dequantised, as the receiver gets them."""
    width = rows.size(1)
    blocks = torch.nn.functional.pad(rows.float(), (0, -width % 8)).unflatten(1, (-1, 8))
    scale = blocks.abs().amax(2, keepdim=True) * torch.tensor(1 / 127, dtype=torch.float32)
    integers = (blocks / scale).half().round().nan_to_num(nan=0.0).clamp(-128, 127)
    return (integers.float() * scale.to(rows.dtype).float()).flatten(1)[:, :width].to(rows.dtype)


def _fill_special_experts(
    rows: Tensor,
    contributes: Tensor,
    expert_ids: Tensor,
    mask: Tensor | None,
    ori_x: Tensor | None,
    constants: Sequence[Tensor],
    kinds: tuple[int, int, int],
) -> None:
    """Fills in the rows of copy and constant experts, which no rank computes."""
    first, copy, const = kinds
    active = torch.ones_like(contributes)
    if mask is not None:
        active = mask if mask.dim() == 2 else mask[:, None].expand_as(contributes)
    if ori_x is None:
        return
    copied = active & (expert_ids >= first) & (expert_ids < first + copy)
    tokens = ori_x.float()[:, None].expand_as(rows)
    rows[copied], contributes[copied] = tokens[copied], True
    if const:
        constant = active & (expert_ids >= first + copy)
        index = (expert_ids[constant] - first - copy).to(torch.int64)
        alpha_1, alpha_2, value = (parameter.float()[index] for parameter in constants)
        rows[constant], contributes[constant] = alpha_1 * tokens[constant] + alpha_2 * value, True


def sum_experts(
    *inputs: Tensor | None,
    group: str,
    layout: ExpertLayout,
    specials: tuple[int, int, int],
    comm_quant_mode: int = 0,
    second: bool = True,
) -> Tensor:
    """``combined_rows`` of the inputs of a node, of which the constants, the last three, may be None."""
    constants = [constant for constant in inputs[7:] if constant is not None]
    numbers = [*astuple(layout), *specials, comm_quant_mode]
    arguments: list[Any] = [*inputs[:7], constants, group, numbers, second]
    return combined_rows(*arguments)


# The route is computed again: the index tensors that dispatch returns are for the device.
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
    """Both versions; only the second has ``comm_alg``."""
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    specials = (zero_expert_num, copy_expert_num, const_expert_num)
    inputs = (expand_x, expert_ids, ep_send_counts, expert_scales, x_active_mask, shared_expert_x, ori_x)
    constants = (const_expert_alpha_1, const_expert_alpha_2, const_expert_v)
    options: dict[str, Any] = {"comm_quant_mode": comm_quant_mode, "second": comm_alg is not None}
    total = sum_experts(*inputs, *constants, group=group_ep, layout=layout, specials=specials, **options)
    return total.to(expand_x.dtype)


def combine(**arguments: Any) -> Tensor:
    """The node called with an operator's arguments; the first version lacks some and keeps the node's defaults."""
    parameters = inspect.signature(combine_node).parameters
    return combine_node(**{name: value for name, value in arguments.items() if name in parameters})
