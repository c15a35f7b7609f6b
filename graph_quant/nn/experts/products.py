"""Routing of tokens to rows sorted by expert and back, and grouped products of those rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Routed(NamedTuple):
    """A row for each pair of token and expert, sorted by expert; shapes depend only on the number of tokens.

    ``row_index`` is the row of each pair, ``counts`` the number of rows of each expert, ``scales`` the row scales if
    routing quantises.
    """

    rows: Tensor
    row_index: Tensor
    counts: Tensor
    scales: Tensor

    @property
    def ends(self) -> Tensor:
        """The end of each expert's rows."""
        return self.counts.cumsum(0)


NOT_QUANTISED, BY_ROW = -1, 1


def route(
    tokens: Tensor, top_k_index: Tensor, experts: int, quant_mode: int = NOT_QUANTISED, smooth: Tensor | None = None
) -> Routed:
    """Copy ``tokens`` (tokens, k) to the rows of their experts, ``top_k_index`` (tokens, top_k)."""
    return Routed(
        *torch.ops.npu.npu_moe_init_routing_v2(
            tokens,
            top_k_index.to(torch.int32),
            scale=smooth,
            expert_num=experts,
            expert_tokens_num_type=1,
            expert_tokens_num_flag=True,
            quant_mode=quant_mode,
        )
    )


def combine(rows: Tensor, routed: Routed, top_k_weights: Tensor) -> Tensor:
    """Add up the weighted rows of each token, in the order of ``top_k_weights`` (tokens, top_k)."""
    exact = rows.dtype == torch.bfloat16 and top_k_weights.dtype == torch.float32
    weights = top_k_weights if exact else top_k_weights.to(rows.dtype)
    result: Tensor = torch.ops.npu.npu_moe_finalize_routing(
        rows, None, None, None, weights, routed.row_index, None, drop_pad_mode=2
    )
    return result


def grouped_matmul(
    rows: Tensor, weight: Tensor, counts: Tensor, dtype: torch.dtype | None = None, **parameters: Tensor | None
) -> Tensor:
    """Multiply each expert's rows with ``weight[expert]``; ``parameters`` have a leading expert dimension too."""
    lists = {name: [tensor] for name, tensor in parameters.items() if tensor is not None}
    (result,) = torch.ops.npu.npu_grouped_matmul(
        [rows], [weight], **lists, group_list=counts, split_item=3, group_type=0, group_list_type=1, output_dtype=dtype
    )
    return result  # type: ignore[no-any-return]
