"""npu_moe_re_routing: what may be passed, and what comes back.

tokens is (tokens, H), H from 1 to 16384, in float16, bfloat16 or int8. expert_token_num_per_rank (ranks, experts)
holds the counts; per_token_scales one float32 for each token. A2 and A3 support only counts (expert_token_num_type 1)
and a gather index (idx_type 0) as results. Ascend 950 has no limit of H; what else it takes, float8
tokens and scales of blocks, is not described.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.moe.re_routing import re_routing as reference
from torch import Tensor

WIDEST = 16384


@operator("npu_moe_re_routing", reference=reference, chips=A2_A3_950)
def re_routing(
    rules: Rules,
    tokens: Tensor,
    expert_token_num_per_rank: Tensor,
    per_token_scales: Tensor | None,
    expert_token_num_type: int,
    idx_type: int,
    tokens_dtype: int | None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    counts = expert_token_num_per_rank
    rules.dtype("tokens", tokens, (torch.float16, torch.bfloat16, torch.int8))
    rules.rank("tokens", tokens, 2)
    rules.at_least("tokens.size(1)", tokens.size(1), 1)
    rules.require(
        rules.chip is ASCEND_950 or tokens.size(1) <= WIDEST,
        lambda: f"tokens.size(1) must be at most {WIDEST}, got {tokens.size(1)}",
    )
    rules.dtype("expert_token_num_per_rank", counts, (torch.int32, torch.int64))
    rules.rank("expert_token_num_per_rank", counts, 2)
    rules.not_empty("expert_token_num_per_rank", counts)
    if per_token_scales is not None:
        rules.dtype("per_token_scales", per_token_scales, (torch.float32,))
        rules.rank("per_token_scales", per_token_scales, 1)
        rules.equal("per_token_scales.size(0)", per_token_scales.size(0), "tokens.size(0)", tokens.size(0))
    rules.one_of("expert_token_num_type", expert_token_num_type, (1,))
    rules.one_of("idx_type", idx_type, (0,))
    rules.refuse_950(tokens_dtype=tokens_dtype)
    rows = tokens.size(0)
    return Plan(
        (
            Result((rows, tokens.size(1)), tokens.dtype),
            Result((rows,), torch.float32),
            Result((rows,), torch.int32),
            Result((counts.size(1),), counts.dtype),
        )
    )
