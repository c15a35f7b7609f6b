"""npu_moe_compute_expert_tokens: the cumulative number of rows of each expert, for rows sorted by expert.

The document allows values below ``num_expert`` only. The device, and torch_npu's own test, also take larger ones, which
are not counted.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def sorted_experts(sorted_expert_for_source_row: Tensor) -> Tensor:
    """``sorted_expert_for_source_row``, refused where it is negative or decreases."""
    op, rows = "npu_moe_compute_expert_tokens", sorted_expert_for_source_row
    if rows.numel() and int(rows[0]) < 0:
        raise Refusal(f"{op}: sorted_expert_for_source_row[0] must not be negative, got {int(rows[0])}")
    falls = (rows.diff() < 0).nonzero()
    if falls.numel():
        index = int(falls[0]) + 1
        before, value = int(rows[index - 1]), int(rows[index])
        where = f"sorted_expert_for_source_row[{index}]"
        raise Refusal(f"{op}: {where} must not be below the value before it, got {value} after {before}")
    return rows


def compute_expert_tokens(sorted_expert_for_source_row: Tensor, num_expert: int) -> Tensor:
    """The end of each expert's rows."""
    rows = sorted_experts(sorted_expert_for_source_row)
    experts = torch.arange(num_expert, dtype=rows.dtype, device=rows.device)
    return torch.searchsorted(rows, experts, right=True, out_int32=True)


@kernel("MoeComputeExpertTokens", exact=True, chips=A2_A3_950)
def compute_expert_tokens_node(sorted_experts: Tensor, *, num_experts: int) -> Tensor:
    return compute_expert_tokens(sorted_experts, num_experts)
