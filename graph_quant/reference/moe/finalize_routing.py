"""npu_moe_finalize_routing: the weighted sum of the experts' rows of each token.

``out[i] = skip1[i] + skip2[i] + sum over k of scales[i, k] * (rows[index[i, k]] + bias[expert[i, k]])``, added from
k = 0 on. bfloat16 is computed in float32 and rounded once; float32 and float16 are computed in their own dtype, so that
float16 rounds after every operation. An index of -1 is a dropped pair, which adds nothing: the document's formula still
adds its bias, the A2/A3 kernel does not.

Ascend 950 computes every dtype in float32, from zero where there is no skip1, and rounds once. -1 is a dropped pair in
every mode, and so is an index beyond the rows where there are no capacities.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.blocks import by_row_blocks
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from torch import Tensor

DROP_MODES, ROW_MODES = (1, 3), (2, 3)
_OP = "npu_moe_finalize_routing"


@value_check
def row_index(expanded_src_to_dst_row: Tensor, lowest: int, rows: int) -> Tensor:
    """``expanded_src_to_dst_row``, refused where a value is not a row index."""
    check_range(_OP, "expanded_src_to_dst_row", expanded_src_to_dst_row, lowest, rows)
    return expanded_src_to_dst_row


@value_check
def bias_index(export_for_source_row: Tensor, experts: int) -> Tensor:
    """``export_for_source_row``, refused where a value is not an expert."""
    check_range(_OP, "export_for_source_row", export_for_source_row, 0, experts)
    return export_for_source_row


def finalize_routing(
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None,
    k: int | None,
) -> Tensor:
    """The result for each token. Without ``scales``, ``k`` is the number of rows per token."""
    mode = drop_pad_mode or 0
    rows = expanded_permuted_rows.flatten(0, -2)
    terms = (k or 1) if scales is None else scales.size(1)
    on_950 = is_950()
    may_drop = on_950 or mode in DROP_MODES
    last = 2**31 if on_950 and mode not in DROP_MODES else rows.size(0)
    index = row_index(expanded_src_to_dst_row, -1 if may_drop else 0, last)
    index = index.reshape(-1, terms) if mode in ROW_MODES else index.reshape(terms, -1).mT
    expert = None if export_for_source_row is None or bias is None else bias_index(export_for_source_row, bias.size(0))
    dtype = torch.float32 if on_950 or rows.dtype == torch.bfloat16 else rows.dtype

    def term(part: slice, choice: int) -> Tensor:
        source = index[part, choice]
        is_kept = (source >= 0) & (source < rows.size(0))
        values = rows.index_select(0, torch.where(is_kept, source, 0)).to(dtype)
        if bias is not None and expert is not None:
            values = values + bias.index_select(0, expert[part, choice]).to(dtype)
        if scales is not None:
            values = values * scales[part, choice, None].to(dtype)
        return torch.where(is_kept.unsqueeze(-1), values, 0) if may_drop else values

    def block(part: slice) -> tuple[Tensor]:
        total = None if skip1 is None else skip1[part].to(dtype)
        if total is not None and skip2 is not None:
            total = total + skip2[part].to(dtype)
        if on_950 and total is None:
            total = rows.new_zeros((index[part].size(0), rows.size(1)), dtype=dtype)
        for choice in range(terms):
            total = term(part, choice) if total is None else total + term(part, choice)
        assert total is not None
        return (total.to(rows.dtype),)

    if torch.compiler.is_compiling():
        return block(slice(None))[0]
    return by_row_blocks(block, index.size(0), rows.size(1))[0]


@kernel("MoeFinalizeRoutingV2", flops=3, exact=True, same=("expanded_x", "x1", "x2", "bias"), chips=A2_A3_950)
def finalize_routing_v2_node(
    expanded_x: Tensor,
    expanded_row_idx: Tensor,
    x1: Tensor | None = None,
    x2: Tensor | None = None,
    bias: Tensor | None = None,
    scales: Tensor | None = None,
    expert_idx: Tensor | None = None,
    *,
    drop_pad_mode: int = 0,
    k: int = 1,
) -> Tensor:
    return finalize_routing(expanded_x, x1, x2, bias, scales, expanded_row_idx, expert_idx, drop_pad_mode, k)


@kernel("MoeFinalizeRouting", flops=3, exact=True, same=("expanded_x", "x1", "x2", "bias", "scales"))
def finalize_routing_node(
    expanded_x: Tensor,
    x1: Tensor,
    x2: Tensor | None,
    bias: Tensor,
    scales: Tensor,
    expanded_row_idx: Tensor,
    expanded_expert_idx: Tensor,
) -> Tensor:
    return finalize_routing(expanded_x, x1, x2, bias, scales, expanded_row_idx, expanded_expert_idx, 0, 1)
