"""npu_moe_finalize_routing: what may be passed, and what comes back.

drop_pad_mode determines the rows of the experts: one for each pair (0, 2), or a fixed number for each expert, with -1
for a dropped pair (1, 3). It also determines the order of the index: all first choices, then all second ones (0, 1), or
token by token (2, 3). scales (tokens, K) have the rows' dtype, or float32 with bfloat16 rows; without them k is the
number of rows per token. skip1 and skip2 are like the result, skip2 only with skip1. bias (E, H) is for the experts in
export_for_source_row. No tensor may be empty.

On Ascend 950 scales have any of the dtypes, and without capacities there may be more or fewer rows than pairs.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.moe.finalize_routing import DROP_MODES
from graph_quant.reference.moe.finalize_routing import finalize_routing as reference
from torch import Tensor


@operator("npu_moe_finalize_routing", reference=reference, chips=A2_A3_950)
def finalize_routing(
    rules: Rules,
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None,
    k: int | None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    mode = drop_pad_mode or 0
    rules.one_of("drop_pad_mode", mode, (0, 1, 2, 3))
    rows, index = expanded_permuted_rows, expanded_src_to_dst_row
    rules.dtype("expanded_permuted_rows", rows, FLOATS)
    rules.rank("expanded_permuted_rows", rows, 3 if mode in DROP_MODES else 2, why=f" with drop_pad_mode {mode}")
    rules.not_empty("expanded_permuted_rows", rows)
    rules.dtype("expanded_src_to_dst_row", index, (torch.int32,))
    rules.rank("expanded_src_to_dst_row", index, 1)
    rules.not_empty("expanded_src_to_dst_row", index)
    if mode not in DROP_MODES and rules.chip is not ASCEND_950:
        pairs = "expanded_src_to_dst_row.size(0)"
        rules.equal("expanded_permuted_rows.size(0)", rows.size(0), pairs, index.size(0))
    tokens, terms = _check_scales(rules, rows, scales, index.size(0), 1 if k is None else k)
    width = rows.size(-1)
    for name, skip in (("skip1", skip1), ("skip2", skip2)):
        if skip is not None:
            _check_matrix(rules, name, skip, rows.dtype)
            rules.equal(f"{name}.size(0)", skip.size(0), "the tokens", tokens)
            rules.equal(f"{name}.size(1)", skip.size(1), "the width of the rows", width)
    rules.require(skip1 is not None or skip2 is None, lambda: "skip2 must be None without skip1")
    if export_for_source_row is not None:
        rules.dtype("export_for_source_row", export_for_source_row, (torch.int32,))
        rules.rank("export_for_source_row", export_for_source_row, 2)
        rules.equal("export_for_source_row.size(0)", export_for_source_row.size(0), "the tokens", tokens)
        rules.equal("export_for_source_row.size(1)", export_for_source_row.size(1), "the rows of a token", terms)
    if bias is not None:
        _check_matrix(rules, "bias", bias, rows.dtype)
        rules.equal("bias.size(1)", bias.size(1), "the width of the rows", width)
        rules.require(export_for_source_row is not None, lambda: "export_for_source_row must not be None with bias")
        rules.require(
            bias.size(0) >= terms,
            lambda: f"bias.size(0) must be at least the rows of a token, {terms}, got {bias.size(0)}",
        )
        if mode in DROP_MODES:
            rules.equal("bias.size(0)", bias.size(0), "expanded_permuted_rows.size(0)", rows.size(0))
    return Plan((Result((tokens, width), rows.dtype),))


def _check_matrix(rules: Rules, name: str, matrix: Tensor, dtype: torch.dtype) -> None:
    rules.dtype(name, matrix, (dtype,), why=", the dtype of expanded_permuted_rows")
    rules.rank(name, matrix, 2)


def _check_scales(rules: Rules, rows: Tensor, scales: Tensor | None, pairs: Size, k: int) -> tuple[Size, Size]:
    """The number of tokens, and of rows per token."""
    rules.at_least("k", k, 1)
    if scales is None:
        rules.require(
            pairs % k == 0, lambda: f"expanded_src_to_dst_row.size(0) must be a multiple of k, got {pairs} and {k}"
        )
        return pairs // k, k
    allowed: tuple[torch.dtype, ...]
    if rules.chip is ASCEND_950:
        allowed = FLOATS
    else:
        allowed = (rows.dtype, torch.float32) if rows.dtype == torch.bfloat16 else (rows.dtype,)
    rules.dtype("scales", scales, allowed, why=f" with rows of {rows.dtype}")
    rules.rank("scales", scales, 2)
    rules.not_empty("scales", scales)
    if k != 1:
        rules.equal("scales.size(1)", scales.size(1), "k", k)
    tokens, terms = scales.shape
    rules.require(
        tokens * terms == pairs,
        lambda: f"expanded_src_to_dst_row.size(0) must equal scales.numel(), got {pairs} and {tokens * terms}",
    )
    return tokens, terms
