"""npu_moe_init_routing_v2: copies of the tokens for each of their experts, sorted by expert and optionally quantised.

Row i of the result is the token of the i-th pair of ``experts.sort_pairs``. With ``drop_pad_mode`` 1 every expert
gets ``expert_capacity`` rows instead: pairs beyond it are dropped, rows without a pair are zero.

Results that the device does not write are zero here: rows of ``expanded_x`` and ``expanded_scale`` after the last pair
whose expert is in the range, a key-value list after its last pair, ``expert_tokens_count_or_cumsum`` without its
flag, and ``expanded_scale`` without scales. The rest of a scatter index (``row_idx_type`` 1) holds the other
pairs, as most of the device's kernels write it. With ``drop_pad_mode`` 1 and no quantisation the documents promise
the scale of each row; the A2/A3 kernel writes none, that of Ascend 950 does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.moe.experts import SortedPairs, expert_ids, only_where, sort_pairs
from graph_quant.reference.moe.quantise import NOT_QUANTISED, STATIC, expand
from graph_quant.reference.moe.tiling import rounds_through_half
from torch import Tensor

CUMULATIVE, COUNT, KEY_VALUE = 0, 1, 2
GATHER, SCATTER = 0, 1


@kernel("MoeInitRoutingV3", flops=4, exact=True, chips=A2_A3_950)
def init_routing_v2(
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    active_num: int = -1,
    expert_capacity: int = -1,
    expert_num: int = -1,
    drop_pad_mode: int = 0,
    expert_tokens_num_type: int = CUMULATIVE,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = NOT_QUANTISED,
    active_expert_range: Sequence[int] = (),
    row_idx_type: int = GATHER,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(expanded_x, expanded_row_idx, expert_tokens_count_or_cumsum, expanded_scale)``."""
    if x.size(0) == 0:
        # The device reads neither.
        scale, offset = (x.new_zeros(1) if quant_mode == STATIC else None), None
    if quant_mode != NOT_QUANTISED and is_950():
        raise NotImplementedError(f"MoeInitRoutingV3: quant_mode {quant_mode} has no host kernel of Ascend 950")
    start, end = active_expert_range or (0, expert_num)
    all_here = start == 0 and end == expert_num
    # Kernels for all experts do not check for pairs without an expert; those for a range of experts skip such pairs.
    ids = expert_ids("npu_moe_init_routing_v2", expert_idx, 0 if all_here else -1, expert_num)
    pairs = sort_pairs(ids, start, end)
    tokens = _token_counts(pairs, start, expert_num, expert_tokens_num_type, expert_tokens_num_flag)
    experts_a_token = expert_idx.size(1)
    if drop_pad_mode:
        pair, row_idx = pairs.with_capacity(expert_num, expert_capacity)
        token = pair.clamp(min=0) // experts_a_token
        expert = torch.arange(pair.size(0), device=x.device) // expert_capacity
        smooth = None if quant_mode == NOT_QUANTISED and not is_950() else scale
        rows, scales = only_where(pair >= 0, *expand(x, token, expert, smooth, offset, quant_mode))
        return rows.reshape(expert_num, expert_capacity, x.size(1)), row_idx, tokens, scales
    through_half = rounds_through_half(x, pairs.order.size(0), expert_num)
    expert = (pairs.experts - start).clamp(max=end - start - 1)

    def rows_of(part: slice) -> tuple[Tensor, Tensor]:
        token = pairs.order[part] // experts_a_token
        return expand(x, token, expert[part], scale, offset, quant_mode, through_half)

    most = pairs.order.size(0) if active_num <= 0 else torch.sym_min(active_num, pairs.order.size(0))
    rows, scales = _present_rows(rows_of, most, None if all_here else pairs.present)
    return rows, pairs.order.to(torch.int32) if row_idx_type == SCATTER else pairs.gather_index(), tokens, scales


def _present_rows(
    rows_of: Callable[[slice], tuple[Tensor, Tensor]], rows: int, present: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The first ``rows`` rows and their scales; zero from row ``present`` on."""
    if present is None:
        return rows_of(slice(0, rows))
    if torch.compiler.is_compiling():
        return only_where(torch.arange(rows, device=present.device) < present, *rows_of(slice(0, rows)))
    here = min(rows, int(present))
    expanded, scales = (
        torch.cat([part, part.new_zeros(rows - here, *part.shape[1:])]) for part in rows_of(slice(0, here))
    )
    return expanded, scales


def _token_counts(pairs: SortedPairs, start: int, experts: int, kind: int, wanted: bool) -> Tensor:
    """The pairs of each expert: cumulative, as counts, or as (expert, count) rows of the nonempty experts."""
    counts = pairs.counts()
    if kind == KEY_VALUE:
        listed = counts.new_zeros(experts + 1, 2)
        if wanted:
            has_pairs = counts > 0
            row = torch.where(has_pairs, has_pairs.cumsum(0) - 1, experts)
            ids = torch.arange(counts.size(0), device=counts.device) + start
            listed = listed.index_copy(0, row, torch.stack((ids, counts), 1))
        return listed[:experts].contiguous()
    if not wanted:
        return torch.zeros_like(counts)
    return counts if kind == COUNT else counts.cumsum(0)
