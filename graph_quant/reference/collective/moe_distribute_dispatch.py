"""npu_moe_distribute_dispatch: sends every token to the ranks of its experts, optionally quantised to int8.

Received rows are ordered by expert, then by source rank, then by token. Shared experts receive every token and own the
first rows of ``scales``. Dynamic quantisation per row in float32: multiply by the expert's scales, if given;
``s = 127 / max|x|``; round ``x * s`` half to even; the scale is ``1 / s``. A row of zeros has scale 0. Rows that nobody
sent are zero here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """All seven results; ``numbers`` are the fields of the layout and sizes of the plan."""
    layout, (specials, tp_ranks, rows, counts, assist, cumulative) = ExpertLayout(*numbers[:5]), numbers[5:]
    op = "npu_moe_distribute_dispatch_v2" if second else "npu_moe_distribute_dispatch"
    route = compute_route(op, group, layout, specials, expert_ids, mask, second)
    received_counts = route.exchange_counts()
    receives = [int(count) for count in received_counts.sum(1)]
    if (total := sum(receives)) > rows:
        raise Refusal(
            f"{op}: global_bs must allow for the {total} rows that came to rank {layout.rank}, got room for {rows}"
        )
    values, row_scales = _select_rows(x, scales, route, expert_ids, quantises)

    def exchange(rows_to_send: Tensor, length: int) -> Tensor:
        received = route.group.all_to_all(rows_to_send.contiguous(), route.sends, receives)
        padded = received.new_zeros((length, *received.shape[1:]))
        padded[: received.size(0)] = sort_by_expert(received, received_counts.tolist())
        return padded

    ends = received_counts.T.flatten().cumsum(0)
    rows_of_experts = received_counts.sum(0)
    return (
        exchange(values, rows),
        x.new_zeros(rows, dtype=torch.float32) if row_scales is None else exchange(row_scales, rows),
        _trace_sources(route, exchange, assist) if second else _count_preceding(route, expert_ids),
        rows_of_experts.cumsum(0) if cumulative else rows_of_experts,
        torch.cat([ends, ends.new_zeros(counts - ends.numel())]).to(torch.int32),
        x.new_zeros(tp_ranks, dtype=torch.int32),
        x.new_zeros(0, dtype=torch.float32) if weights is None else exchange(weights.flatten()[route.indices], rows),
    )


def _select_rows(
    x: Tensor, scales: Tensor | None, route: Route, expert_ids: Tensor, quantises: bool
) -> tuple[Tensor, Tensor | None]:
    tokens = route.tokens
    if not quantises:
        return x[tokens], None if scales is None else scales[tokens]
    return quantise_rows(x[tokens], None if scales is None else scales[_experts_of_rows(route, expert_ids)])


def quantise_rows(rows: Tensor, scales: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows as int8, and their scales."""
    values = rows.float() if scales is None else rows.float() * scales
    largest = values.abs().amax(1, keepdim=True)
    multiplier = torch.full_like(largest, 127.0) / largest
    integers = (values * multiplier).round().nan_to_num(nan=0.0).clamp(-128, 127).to(torch.int8)
    return integers, (torch.ones_like(multiplier) / multiplier).squeeze(1)


def _experts_of_rows(route: Route, expert_ids: Tensor) -> Tensor:
    """The expert id of every row; shared experts come first."""
    shared = route.layout.shared
    first = torch.arange(shared).expand(expert_ids.size(0), -1)
    return torch.cat([expert_ids.to(torch.int64) + shared, first], 1).flatten()[route.indices]


def _trace_sources(route: Route, exchange: Callable[[Tensor, int], Tensor], length: int) -> Tensor:
    """The source rank, token and expert column of every received row, padded with zeros."""
    rank = torch.full_like(route.indices, route.layout.rank)
    sources = torch.stack([rank, route.tokens, route.choices], 1).to(torch.int32)
    return exchange(sources, length // 3 + 1).flatten()[:length].contiguous()


def _count_preceding(route: Route, expert_ids: Tensor) -> Tensor:
    """For every token and expert, the number of preceding tokens that go to the same expert."""
    preceding = torch.zeros(expert_ids.size(0) * route.chosen, dtype=torch.int32)
    starts = torch.repeat_interleave(route.counts.cumsum(0) - route.counts, route.counts)
    preceding[route.indices] = (torch.arange(route.indices.numel()) - starts).to(torch.int32)
    return preceding.view(-1, route.chosen)[:, : expert_ids.size(1)].flatten()


def select_sent_weights(expert_scales: Tensor | None, second: bool) -> Tensor | None:
    """The weights that are sent with the rows; the first version's kernels on A3 ignore ``expert_scales``."""
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
    """Both versions; the second has ``specials`` experts that compute nothing and receive no rows."""
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
    """Both versions; only the second has ``comm_alg``."""
    tokens, chosen, second = global_bs or x.size(0) * ep_world_size, expert_ids.size(1), comm_alg is not None
    layout = ExpertLayout.of(ep_world_size, ep_rank_id, moe_expert_num, shared_expert_num, shared_expert_rank_num)
    rows = layout.rows(tokens, chosen, second)
    extra = 0 if select_sent_weights(expert_scales, second) is None else tokens * 2 * chosen * (ep_world_size // 8)
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
        counts=ep_world_size * layout.local + extra,
        assist=max(x.size(0) * chosen, rows * 128) if second else x.size(0) * chosen,
    )
