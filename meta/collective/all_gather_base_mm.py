"""npu_all_gather_base_mm: argument rules and results.

input (m, k) and x2 (k, n) are float16 or bfloat16; or, with comm_mode "aiv", int8 with x2_scale, (1, n), and an
optional x1_scale, float32 (m, 1). k is from 256 to 65534. The product is (m * world_size, n). The gathered rows are
(m * world_size, k), or empty without gather_output.
"""

from __future__ import annotations

import torch
from graph_quant.meta.collective.matmul_rules import MatmulPlan, check_bias, check_gathered
from graph_quant.meta.collective.scale_rules import base_output, check_scales
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.all_gather_base_mm import all_gather_base_mm as reference
from torch import Tensor


@operator("npu_all_gather_base_mm", reference=reference)
def all_gather_base_mm(
    rules: Rules,
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    gather_index: int,
    gather_output: bool,
    comm_turn: int,
    output_dtype: torch.dtype | None,
    comm_mode: str | None,
) -> MatmulPlan:
    """Check a call against the documented rules and return its plan."""
    check_gathered(rules, input, x2, world_size, comm_turn)
    rules.one_of("gather_index", gather_index, (0,))
    rules.require(
        gather_output or comm_mode != "aiv", lambda: 'gather_output must be True for comm_mode "aiv", got False'
    )
    packed = check_scales(rules, input, x2, x1_scale, x2_scale)
    output = base_output(rules, input, packed, output_dtype, comm_mode)
    if bias is not None and input.dtype == torch.int8:
        rules.refuse("bias must be None for int8 input, got one")
    check_bias(rules, bias, (input.dtype,), x2.size(1))
    rows = input.size(0) * world_size
    gathered = (rows, input.size(1)) if gather_output else (0,)
    return MatmulPlan((Result((rows, x2.size(1)), output), Result(gathered, input.dtype)), output)
