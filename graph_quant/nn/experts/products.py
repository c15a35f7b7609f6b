"""Rows sorted by expert: how tokens get there and back, and products of each expert's rows with its matrix."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Routed(NamedTuple):
    """A row for each pair of token and expert, sorted by expert; all shapes depend on the number of tokens alone.

    ``place`` is where each pair went, ``counts`` how many rows each expert has, ``scales`` those of rows that were
    quantised on the way.
    """

    rows: Tensor
    place: Tensor
    counts: Tensor
    scales: Tensor

    @property
    def ends(self) -> Tensor:
        """Where the rows of each expert end."""
        return self.counts.cumsum(0)


NOT_QUANTISED, BY_ROW = -1, 1


def route(
    tokens: Tensor, top_k_index: Tensor, experts: int, quant_mode: int = NOT_QUANTISED, smooth: Tensor | None = None
) -> Routed:
    """Copies ``tokens`` (tokens, k) to the rows of the experts that ``top_k_index`` (tokens, top_k) chose for them."""
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
    """What the experts made of each token, weighted and added up in the order of ``top_k_weights`` (tokens, top_k)."""
    exact = rows.dtype == torch.bfloat16 and top_k_weights.dtype == torch.float32
    weights = top_k_weights if exact else top_k_weights.to(rows.dtype)
    result: Tensor = torch.ops.npu.npu_moe_finalize_routing(
        rows, None, None, None, weights, routed.place, None, drop_pad_mode=2
    )
    return result


def grouped_product(
    rows: Tensor, weight: Tensor, counts: Tensor, dtype: torch.dtype | None = None, **parameters: Tensor | None
) -> Tensor:
    """Each expert's rows times its matrix, ``weight[expert]``; ``parameters`` start with the experts as well."""
    lists = {name: [tensor] for name, tensor in parameters.items() if tensor is not None}
    (result,) = torch.ops.npu.npu_grouped_matmul(
        [rows], [weight], **lists, group_list=counts, split_item=3, group_type=0, group_list_type=1, output_dtype=dtype
    )
    return result  # type: ignore[no-any-return]
