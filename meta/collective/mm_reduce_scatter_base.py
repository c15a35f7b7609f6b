"""npu_mm_reduce_scatter_base: argument rules and results.

input (m, k) and x2 (k, n) are float16 or bfloat16; or, with comm_mode "aiv", int8 with x2_scale, (1, n), and an
optional x1_scale, float32 (m, 1). m is a multiple of world_size, k from 256 to 65534. The result is
(m / world_size, n).
"""

from __future__ import annotations

import torch
from graph_quant.meta.collective.matmul_rules import MatmulPlan, check_bias, check_gathered, check_scattered
from graph_quant.meta.collective.scale_rules import base_output, check_scales
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.mm_reduce_scatter_base import mm_reduce_scatter_base as reference
from torch import Tensor


@operator("npu_mm_reduce_scatter_base", reference=reference)
def mm_reduce_scatter_base(
    rules: Rules,
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    reduce_op: str,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    comm_turn: int,
    output_dtype: torch.dtype | None,
    comm_mode: str | None,
) -> MatmulPlan:
    """Check a call against the documented rules and return its plan."""
    check_gathered(rules, input, x2, world_size, comm_turn)
    kept = check_scattered(rules, input, world_size, reduce_op)
    packed = check_scales(rules, input, x2, x1_scale, x2_scale)
    output = base_output(rules, input, packed, output_dtype, comm_mode)
    if bias is not None and input.dtype == torch.int8:
        rules.refuse("bias must be None for int8 input, got one")
    check_bias(rules, bias, (input.dtype,), x2.size(1))
    return MatmulPlan((Result((kept, x2.size(1)), output),), output)
