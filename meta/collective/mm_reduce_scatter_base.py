"""npu_mm_reduce_scatter_base: what may be passed, and what comes back.

input (m, k) and x2 (k, n) are float16 or bfloat16; or int8 with x2_scale, (1, n), and perhaps x1_scale, float32 (m, 1),
which comm_mode "aiv" is for. m is a multiple of world_size, k from 256 to 65534. The result is (m / world_size, n).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.meta.collective.products import check_bias, check_depth, check_fused, check_ranks, check_sizes
from graph_quant.meta.collective.scales import check_scales
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.mm_reduce_scatter_base import mm_reduce_scatter_base as reference
from torch import Tensor


@dataclass(frozen=True)
class ReduceScatterPlan(Plan):
    """``output`` is the dtype of the result, in which ranks add."""

    output: torch.dtype


@operator("npu_mm_reduce_scatter_base", reference=reference)
def mm_reduce_scatter_base(
    rules: Rules,
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (asked when ranks communicate)
    world_size: int,
    reduce_op: str,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    comm_turn: int,
    output_dtype: torch.dtype | None,
    comm_mode: str | None,
) -> ReduceScatterPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    check_ranks(rules, world_size)
    check_fused(rules, reduce_op, comm_turn)
    check_sizes(rules, "input", input, x2)
    check_depth(rules, "input", input.size(1))
    rows = input.size(0)
    rules.require(
        rows % world_size == 0, lambda: f"input.size(0) must be a multiple of world_size, got {rows} and {world_size}"
    )
    output = check_scales(rules, "input", input, x2, x1_scale, x2_scale, output_dtype, comm_mode)
    if bias is not None and input.dtype == torch.int8:
        rules.refuse("bias must be None for int8 input, got one")
    check_bias(rules, bias, input.dtype, x2.size(1))
    return ReduceScatterPlan((Result((rows // world_size, x2.size(1)), output),), output)
