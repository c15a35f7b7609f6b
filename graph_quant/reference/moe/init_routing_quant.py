"""npu_moe_init_routing_quant: copies of the tokens for each of their experts, sorted by expert and quantised to int8.

Row i of the result is the token of the i-th pair of ``experts.sort_pairs``. With ``drop_pad_mode`` 1 every expert
gets ``expert_capacity`` rows instead: pairs beyond it are dropped, rows without a pair are zero.

Unlike in npu_moe_init_routing_v2, static quantisation computes in float16 and rounds after each operation, and dynamic
quantisation truncates quotients to float16 and rounds half away from zero in every kernel. The device sorts in float32.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.moe.experts import SortedPairs, expert_ids, only_where, sort_pairs
from graph_quant.reference.moe.gather_rows import gather_rows
from graph_quant.reference.moe.quantise import DYNAMIC, STATIC, expand
from graph_quant.reference.rounding import saturate
from torch import Tensor

NO_COUNTS, CUMULATIVE, COUNT = 0, 1, 2
_SORTABLE = 2**24
Results = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]


def init_routing_quant(
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: int,
    expert_tokens_num_mode: int,
    expert_tokens_before_capacity_flag: bool,
    quant_mode: int,
) -> Results:
    """The rows, the index, the token counts of the experts after and before dropping, and the scale of each row."""
    by_expert = drop_pad_mode or expert_tokens_num_mode or (scale is not None and scale.size(0) > 1)
    ids = expert_ids("npu_moe_init_routing_quant", expert_idx, 0, expert_num if by_expert else _SORTABLE)
    pairs = sort_pairs(ids, 0, expert_num)
    if drop_pad_mode:
        pair, row_idx = pairs.with_capacity(expert_num, expert_capacity)
        expert = torch.arange(pair.size(0), device=x.device) // expert_capacity
        token = pair.clamp(min=0) // expert_idx.size(1)
        rows, scales = only_where(pair >= 0, *_quantised(x, token, expert, scale, offset, quant_mode))
        before = pairs.counts().to(torch.int32) if expert_tokens_before_capacity_flag else None
        rows = rows.reshape(expert_num, expert_capacity, x.size(1))
        return rows, row_idx, None, before, scales if quant_mode == DYNAMIC else None
    kept = pairs.order.size(0) if active_num == 0 else torch.sym_min(active_num, pairs.order.size(0))
    token, expert = pairs.order[:kept] // expert_idx.size(1), pairs.experts[:kept]
    rows, scales = _quantised(x, token, expert, scale, offset, quant_mode)
    counts = _counts(pairs, expert_tokens_num_mode)
    return rows, pairs.positions(), counts, None, scales if quant_mode == DYNAMIC else None


def _quantised(
    x: Tensor, token: Tensor, expert: Tensor, scale: Tensor | None, offset: Tensor | None, quant_mode: int
) -> tuple[Tensor, Tensor]:
    if quant_mode == STATIC:
        assert scale is not None
        assert offset is not None
        halves = x.half() * scale.half() + offset.half()
        return gather_rows(saturate(halves.float(), INT8), token), x.new_zeros(token.shape, dtype=torch.float32)
    return expand(x, token, expert, scale, None, DYNAMIC, through_half=True)


def _counts(pairs: SortedPairs, mode: int) -> Tensor | None:
    if mode == NO_COUNTS:
        return None
    counts = pairs.counts()
    return (counts if mode == COUNT else counts.cumsum(0)).to(torch.int32)


@kernel("MoeInitRoutingQuantV2", flops=4)
def init_routing_quant_node(
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    active_num: int = 0,
    expert_capacity: int = 0,
    expert_num: int = 0,
    drop_pad_mode: int = 0,
    expert_tokens_count_or_cumsum_flag: int = NO_COUNTS,
    expert_tokens_before_capacity_flag: bool = False,
    quant_mode: int = STATIC,
) -> tuple[Tensor, ...]:
    results = init_routing_quant(
        x,
        expert_idx,
        scale,
        offset,
        active_num,
        expert_capacity,
        expert_num,
        drop_pad_mode,
        expert_tokens_count_or_cumsum_flag,
        expert_tokens_before_capacity_flag,
        quant_mode,
    )
    return tuple(x.new_empty(0) if result is None else result for result in results)
