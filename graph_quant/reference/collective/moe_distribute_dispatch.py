"""npu_moe_distribute_dispatch: every token to the ranks of its experts, quantised on the way where that is asked.

A rank's rows stand by expert, those of an expert by the rank they came from, those of a rank in the order of tokens.
Shared experts get every token, and have the first rows of the scales.
Dynamic quantisation, for each row: times the expert's scales, if given; ``s = 127 / max|x|``; rounded half to even of
``x * s``; its scale is ``1 / s``. Each step is float32. A row of zeros has scale 0. Rows that nobody sent are zero
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import torch
from graph_quant.chip import is_a3
from graph_quant.ge import kernel
from graph_quant.reference.collective.expert_layout import ExpertLayout
from graph_quant.reference.collective.expert_routing import Route, compute_route, sort_by_expert
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

DispatchResults = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _infer(
    x: Tensor,
    _: Tensor,
    __: Tensor | None,
    ___: Tensor | None,
    weights: Tensor | None,
    ____: str,
    numbers: Sequence[int],
    quantises: bool,
    *_____: object,
) -> DispatchResults:
    layout, (tp_ranks, rows, counts, assist) = ExpertLayout(*numbers[:5]), numbers[6:10]
    return (
        x.new_empty((rows, x.size(1)), dtype=torch.int8 if quantises else x.dtype),
        x.new_empty((rows,), dtype=torch.float32),
        x.new_empty((assist,), dtype=torch.int32),
        x.new_empty((layout.local,), dtype=torch.int64),
        x.new_empty((counts,), dtype=torch.int32),
        x.new_empty((tp_ranks,), dtype=torch.int32),
        x.new_empty((0 if weights is None else rows,), dtype=torch.float32),
    )


@opaque(_infer, ordered=True)
def moe_distribute_dispatch(
    x: Tensor,
    expert_ids: Tensor,
    scales: Tensor | None,
    mask: Tensor | None,
    weights: Tensor | None,
    group: str,
    numbers: Sequence[int],
    quantises: bool,
    second: bool,
) -> DispatchResults:
    """All seven results; ``numbers`` are those of the layout, sizes and what the plan says of them."""
    layout, (specials, tp_ranks, rows, counts, assist, cumulative) = ExpertLayout(*numbers[:5]), numbers[5:]
    op = "npu_moe_distribute_dispatch_v2" if second else "npu_moe_distribute_dispatch"
    way = compute_route(op, group, layout, specials, expert_ids, mask, second)
    come = way.come()
    takes = [int(number) for number in come.sum(1)]
    if sum(takes) > rows:
        raise Refusal(
            f"{op}: global_bs must allow for the {sum(takes)} rows that came to rank {layout.rank}, got room for {rows}"
        )
    values, row_scales = _sent(x, scales, way, expert_ids, quantises)

    def taken(sent: Tensor, length: int) -> Tensor:
        came = sort_by_expert(way.group.all_to_all(sent.contiguous(), way.sends, takes), come.tolist())
        whole = sent.new_zeros((length, *sent.shape[1:]))
        whole[: came.size(0)] = came
        return whole

    by_place = come.T.flatten().cumsum(0)
    numbers_of_experts = come.sum(0)
    return (
        taken(values, rows),
        x.new_zeros(rows, dtype=torch.float32) if row_scales is None else taken(row_scales, rows),
        _assist(way, taken, assist) if second else _places_among_equals(way, expert_ids),
        numbers_of_experts.cumsum(0) if cumulative else numbers_of_experts,
        torch.cat([by_place, by_place.new_zeros(counts - by_place.numel())]).to(torch.int32),
        x.new_zeros(tp_ranks, dtype=torch.int32),
        x.new_zeros(0, dtype=torch.float32) if weights is None else taken(weights.flatten()[way.places], rows),
    )


def _sent(
    x: Tensor, scales: Tensor | None, way: Route, expert_ids: Tensor, quantises: bool
) -> tuple[Tensor, Tensor | None]:
    tokens = way.tokens
    if not quantises:
        return x[tokens], None if scales is None else scales[tokens]
    return quantise_rows(x[tokens], None if scales is None else scales[_experts_of_rows(way, expert_ids)])


def quantise_rows(rows: Tensor, scales: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows as int8, and the scale of each."""
    values = rows.float() if scales is None else rows.float() * scales
    largest = values.abs().amax(1, keepdim=True)
    factor = torch.full_like(largest, 127.0) / largest
    whole = (values * factor).round().nan_to_num(nan=0.0).clamp(-128, 127).to(torch.int8)
    return whole, (torch.ones_like(factor) / factor).squeeze(1)


def _experts_of_rows(way: Route, expert_ids: Tensor) -> Tensor:
    """The expert of each row, shared ones first."""
    shared = way.layout.shared
    first = torch.arange(shared).expand(expert_ids.size(0), -1)
    return torch.cat([expert_ids.to(torch.int64) + shared, first], 1).flatten()[way.places]


def _assist(way: Route, taken: object, length: int) -> Tensor:
    """Where each row came from: its rank, token and which of the token's experts; then nothing."""
    rank = torch.full_like(way.places, way.layout.rank)
    from_here = torch.stack([rank, way.tokens, way.choices], 1).to(torch.int32)
    triples: Tensor = taken(from_here, length // 3 + 1)  # type: ignore[operator]
    return triples.flatten()[:length].contiguous()


def _places_among_equals(way: Route, expert_ids: Tensor) -> Tensor:
    """For each expert of each token, how many tokens before it go there."""
    found = torch.zeros(expert_ids.size(0) * way.chosen, dtype=torch.int32)
    starts = torch.repeat_interleave(way.counts.cumsum(0) - way.counts, way.counts)
    found[way.places] = (torch.arange(way.places.numel()) - starts).to(torch.int32)
    return found.view(-1, way.chosen)[:, : expert_ids.size(1)].flatten()


def select_sent_weights(expert_scales: Tensor | None, second: bool) -> Tensor | None:
    """What goes with the rows: on A3 the kernels of the first version take weights and do not read them."""
    return expert_scales if second or not is_a3() else None


def dispatch(
    x: Tensor,
    expert_ids: Tensor,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    scales: Tensor | None,
    x_active_mask: Tensor | None,
    expert_scales: Tensor | None,
    tp_world_size: int,
    shared_expert_num: int,
    shared_expert_rank_num: int,
    quant_mode: int,
    expert_token_nums_type: int,
    specials: int,
    second: bool,
    rows: int,
    counts: int,
    assist: int,
) -> DispatchResults:
    """Both versions; of the second, ``specials`` experts may compute nothing and are sent nothing."""
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    sizes = [rows, counts, assist, int(expert_token_nums_type == 0)]
    numbers = [*astuple(layout), specials, tp_world_size, *sizes]
    tensors = (x, expert_ids, scales, x_active_mask, select_sent_weights(expert_scales, second))
    return moe_distribute_dispatch(*tensors, group_ep, numbers, quant_mode == 2, second)


@kernel(
    "MoeDistributeDispatch",
    "MoeDistributeDispatchV2",
    flops=0,
    idle=("group_tp", "tp_rank_id", "y_dtype"),
    only={"tp_world_size": (0, 1)},
)
def dispatch_node(
    x: Tensor,
    expert_ids: Tensor,
    scales: Tensor | None = None,
    x_active_mask: Tensor | None = None,
    expert_scales: Tensor | None = None,
    *,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    tp_world_size: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    quant_mode: int = 0,
    global_bs: int = 0,
    expert_token_nums_type: int = 1,
    comm_alg: str | None = None,
    zero_expert_num: int = 0,
    copy_expert_num: int = 0,
    const_expert_num: int = 0,
) -> tuple[Tensor, ...]:
    """Only the second version says by which algorithm ranks communicate."""
    tokens, chosen, second = global_bs or x.size(0) * ep_world_size, expert_ids.size(1), comm_alg is not None
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    rows = layout.rows(tokens, chosen, second)
    more = 0 if select_sent_weights(expert_scales, second) is None else tokens * 2 * chosen * (ep_world_size // 8)
    return dispatch(
        x,
        expert_ids,
        group_ep,
        ep_world_size,
        ep_rank_id,
        moe_expert_num,
        scales,
        x_active_mask,
        expert_scales,
        tp_world_size,
        shared_expert_num,
        shared_expert_rank_num,
        quant_mode,
        expert_token_nums_type,
        specials=zero_expert_num + copy_expert_num + const_expert_num,
        second=second,
        rows=rows,
        counts=ep_world_size * layout.local + more,
        assist=max(x.size(0) * chosen, rows * 128) if second else x.size(0) * chosen,
    )
