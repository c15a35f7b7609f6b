"""npu_all_gather_base_mm: what may be passed, and what comes back.

input (m, k) and x2 (k, n) are float16 or bfloat16; or int8 with x2_scale, (1, n), and perhaps x1_scale, float32 (m, 1),
which comm_mode "aiv" is for. k is from 256 to 65534. The product is (m * world_size, n), what was gathered
(m * world_size, k), or empty without gather_output.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.meta.collective.products import check_bias, check_depth, check_fused, check_ranks, check_sizes
from graph_quant.meta.collective.scales import check_scales
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.all_gather_base_mm import all_gather_base_mm as reference
from torch import Tensor


@dataclass(frozen=True)
class AllGatherPlan(Plan):
    """``output`` is the dtype of the product."""

    output: torch.dtype


@operator("npu_all_gather_base_mm", reference=reference)
def all_gather_base_mm(
    rules: Rules,
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (asked when ranks communicate)
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    gather_index: int,
    gather_output: bool,
    comm_turn: int,
    output_dtype: torch.dtype | None,
    comm_mode: str | None,
) -> AllGatherPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    check_ranks(rules, world_size)
    check_fused(rules, None, comm_turn)
    rules.one_of("gather_index", gather_index, (0,))
    rules.require(
        gather_output or comm_mode != "aiv", lambda: 'gather_output must be True for comm_mode "aiv", got False'
    )
    check_sizes(rules, "input", input, x2)
    check_depth(rules, "input", input.size(1))
    output = check_scales(rules, "input", input, x2, x1_scale, x2_scale, output_dtype, comm_mode)
    if bias is not None and input.dtype == torch.int8:
        rules.refuse("bias must be None for int8 input, got one")
    check_bias(rules, bias, input.dtype, x2.size(1))
    rows = input.size(0) * world_size
    gathered = (rows, input.size(1)) if gather_output else (0,)
    return AllGatherPlan((Result((rows, x2.size(1)), output), Result(gathered, input.dtype)), output)
