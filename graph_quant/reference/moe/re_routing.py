"""npu_moe_re_routing: tokens sorted by rank, reordered by expert.

``expert_token_num_per_rank[r, e]`` tokens of rank r are for expert e, and they arrive in this order. The results are
the tokens with all of expert 0 first, those of one expert in the order of their ranks; their scales (zero without
``per_token_scales``, where the device writes none); the source index of each; and the token count of each expert.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def token_counts(expert_token_num_per_rank: Tensor, tokens: int) -> Tensor:
    """``expert_token_num_per_rank``, refused where a count is negative or they do not add up to ``tokens``."""
    op, name = "npu_moe_re_routing", "expert_token_num_per_rank"
    counts = expert_token_num_per_rank
    if counts.numel() and int(counts.min()) < 0:
        rank, expert = (counts < 0).nonzero()[0].tolist()
        raise Refusal(f"{op}: {name}[{rank}][{expert}] must not be negative, got {int(counts[rank, expert])}")
    if int(counts.sum()) != tokens:
        raise Refusal(f"{op}: the sum of {name} must equal tokens.size(0), got {int(counts.sum())} and {tokens}")
    return expert_token_num_per_rank


@kernel("MoeReRouting", flops=0, chips=A2_A3_950)
def re_routing(
    tokens: Tensor,
    expert_token_num_per_rank: Tensor,
    per_token_scales: Tensor | None = None,
    *,
    expert_token_num_type: int = 1,  # noqa: ARG001
    idx_type: int = 0,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(permute_tokens, permute_per_token_scales, permute_token_idx, expert_token_num)``."""
    counts = token_counts(expert_token_num_per_rank, tokens.size(0))
    experts = counts.size(1)
    position = torch.arange(tokens.size(0), device=tokens.device)
    # The piece (rank, expert) of a token gives its expert; a stable sort keeps the order of ranks.
    piece = torch.searchsorted(counts.reshape(-1).cumsum(0), position, right=True)
    source = torch.sort(piece % experts, stable=True).indices
    scales = tokens.new_zeros(tokens.size(0), dtype=torch.float32)
    if per_token_scales is not None:
        scales = per_token_scales.index_select(0, source)
    return tokens.index_select(0, source), scales, source.to(torch.int32), counts.sum(0, dtype=counts.dtype)
