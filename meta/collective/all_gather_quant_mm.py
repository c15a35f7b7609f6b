"""npu_all_gather_quant_mm: argument rules and results on A2 and A3.

As npu_all_gather_base_mm with comm_mode "aiv": input (m, k) and x2 (k, n) are float16, bfloat16 or int8 with scales,
for which y_dtype is the dtype of the product. bias and amax_output are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.collective.matmul_rules import MatmulPlan, check_gathered, check_none
from graph_quant.meta.collective.reserved_arguments import RANKS, check_reserved
from graph_quant.meta.collective.scale_rules import check_scales, quantised_output
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.all_gather_base_mm import all_gather_quant_mm as reference
from torch import Tensor


@operator("npu_all_gather_quant_mm", reference=reference)
def all_gather_quant_mm(
    rules: Rules,
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    quant_scale: Tensor | None,
    block_size: int,
    gather_index: int,
    gather_output: bool,
    comm_turn: int,
    group_sizes: Sequence[int] | None,
    amax_output: bool,
    y_dtype: int | None,
    x1_dtype: int | None,
    x2_dtype: int | None,
    x1_scale_dtype: int | None,
    x2_scale_dtype: int | None,
    comm_mode: str | None,
) -> MatmulPlan:
    """Check a call against the documented rules and return its plan."""
    check_gathered(rules, input, x2, world_size, comm_turn, RANKS)
    dtypes = {"x1_dtype": x1_dtype, "x2_dtype": x2_dtype}
    scales = {"x1_scale_dtype": x1_scale_dtype, "x2_scale_dtype": x2_scale_dtype}
    check_reserved(rules, quant_scale, block_size, group_sizes, amax_output, **dtypes, **scales)
    check_none(rules, " on A2 and A3", bias=bias)
    rules.one_of("gather_index", gather_index, (0,))
    rules.one_of("comm_mode", comm_mode, ("aiv",), " on A2 and A3")
    rules.one_of("gather_output", gather_output, (True,), " on A2 and A3")
    packed = check_scales(rules, input, x2, x1_scale, x2_scale)
    output = quantised_output(rules, input, packed, y_dtype)
    rows = input.size(0) * world_size
    gathered = Result((rows, input.size(1)), input.dtype)
    results = (Result((rows, x2.size(1)), output), gathered, Result((0,), torch.float32))
    return MatmulPlan(results, output)
