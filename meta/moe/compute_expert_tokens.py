"""npu_moe_compute_expert_tokens: what may be passed, and what comes back.

sorted_expert_for_source_row is int32 and sorted, with fewer than 2**24 rows; there are 1 to 2048 experts. The result is
int32, one number for each expert.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.moe.compute_expert_tokens import compute_expert_tokens as reference
from torch import Tensor

MOST_ROWS, MOST_EXPERTS = 2**24, 2048


@operator("npu_moe_compute_expert_tokens", reference=reference, chips=A2_A3_950)
def compute_expert_tokens(rules: Rules, sorted_expert_for_source_row: Tensor, num_expert: int) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rows = sorted_expert_for_source_row
    rules.dtype("sorted_expert_for_source_row", rows, (torch.int32,))
    rules.rank("sorted_expert_for_source_row", rows, 1)
    rules.not_empty("sorted_expert_for_source_row", rows)
    rules.require(
        rows.size(0) < MOST_ROWS,
        lambda: f"sorted_expert_for_source_row.size(0) must be less than 2**24, got {rows.size(0)}",
    )
    rules.at_least("num_expert", num_expert, 1)
    rules.require(num_expert <= MOST_EXPERTS, lambda: f"num_expert must be at most {MOST_EXPERTS}, got {num_expert}")
    return Plan((Result((num_expert,), torch.int32),))
