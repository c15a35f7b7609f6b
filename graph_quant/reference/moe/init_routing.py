"""npu_moe_init_routing: copies of the tokens for each of their experts, sorted by expert.

Pairs of token and expert are sorted by expert, those of one expert in the order of ``expert_idx``. A pair has a number
in ``row_idx``: its token is ``number % tokens``, and its sorted position is written to the index at that number. The
first min(tokens, active_num) * K rows are kept.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_moe_init_routing"


@value_check
def row_numbers(row_idx: Tensor) -> Tensor:
    """``row_idx``, refused where it is not a permutation."""
    check_range(_OP, "row_idx", row_idx, 0, row_idx.numel())
    if row_idx.unique().numel() != row_idx.numel():
        raise Refusal(f"{_OP}: the values of row_idx must be different, got one twice")
    return row_idx


@value_check
def experts(expert_idx: Tensor) -> Tensor:
    """``expert_idx``, refused where a value is not exact in float32, in which the device sorts."""
    check_range(_OP, "expert_idx", expert_idx, 0, 2**24)
    return expert_idx


@kernel("MoeInitRouting", flops=0, exact=True, chips=A2_A3_950)
def init_routing(x: Tensor, row_idx: Tensor, expert_idx: Tensor, *, active_num: int) -> tuple[Tensor, Tensor, Tensor]:
    """``(expanded_x, expanded_row_idx, expanded_expert_idx)``."""
    numbers = row_numbers(row_idx).reshape(-1)
    expanded_experts, order = torch.sort(experts(expert_idx).reshape(-1), stable=True)
    source = numbers[order].long()
    position = torch.arange(source.size(0), dtype=torch.int32, device=x.device)
    expanded_row_idx = torch.empty_like(position).scatter(0, source, position)
    kept = torch.sym_min(active_num, x.size(0)) * expert_idx.size(1)
    return x.index_select(0, source[:kept] % x.size(0)), expanded_row_idx, expanded_experts
