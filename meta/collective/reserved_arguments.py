"""Arguments that npu_all_gather_quant_mm and npu_quant_mm_reduce_scatter reserve, or support on other chips only."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.meta.collective.matmul_rules import check_none
from graph_quant.meta.rules import Rules
from torch import Tensor

RANKS = (2, 4, 8)


def check_reserved(
    rules: Rules,
    quant_scale: Tensor | None,
    block_size: int,
    group_sizes: Sequence[int] | None,
    amax_output: bool,
    **dtypes: int | None,
) -> None:
    """Refuse other values than the defaults."""
    check_none(rules, " today", quant_scale=quant_scale)
    rules.one_of("block_size", block_size, (0,))
    rules.one_of("group_sizes", list(group_sizes or ()), ([], [0, 0, 0]), " on A2 and A3")
    rules.one_of("amax_output", amax_output, (False,))
    check_none(rules, ": int4 and the dtypes of Ascend 950 are not computed on the host", **dtypes)
