"""npu_quant_mm_reduce_scatter: argument rules and results on A2 and A3.

As npu_mm_reduce_scatter_base with comm_mode "aiv": input (m, k) and x2 (k, n) are float16, bfloat16 or int8 with
scales, for which y_dtype is the dtype of the product. bias, (n,), is a floating-point tensor for int8 too and is added
after the scales. amax_output is not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.collective.matmul_rules import HALVES, MatmulPlan, check_bias, check_gathered, check_scattered
from graph_quant.meta.collective.reserved_arguments import RANKS, check_reserved
from graph_quant.meta.collective.scale_rules import check_scales, quantised_output
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.mm_reduce_scatter_base import quant_mm_reduce_scatter as reference
from torch import Tensor


@operator("npu_quant_mm_reduce_scatter", reference=reference)
def quant_mm_reduce_scatter(
    rules: Rules,
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    reduce_op: str,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    quant_scale: Tensor | None,
    block_size: int,
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
    kept = check_scattered(rules, input, world_size, reduce_op)
    dtypes = {"x1_dtype": x1_dtype, "x2_dtype": x2_dtype}
    scales = {"x1_scale_dtype": x1_scale_dtype, "x2_scale_dtype": x2_scale_dtype}
    check_reserved(rules, quant_scale, block_size, group_sizes, amax_output, **dtypes, **scales)
    rules.one_of("comm_mode", comm_mode, (None, "aiv"), " on A2 and A3")
    packed = check_scales(rules, input, x2, x1_scale, x2_scale)
    output = quantised_output(rules, input, packed, y_dtype)
    halves = HALVES if input.dtype == torch.int8 else (input.dtype,)
    check_bias(rules, bias, (*halves, torch.float32), x2.size(1), f" for {input.dtype} input")
    return MatmulPlan((Result((kept, x2.size(1)), output), Result((0,), torch.float32)), output)
