"""npu_dynamic_block_mx_quant: what may be passed, and what comes back. Only Ascend 950 has it.

input is float16 or bfloat16 of two or three dimensions, not empty, in blocks of 32 by 32. scale_alg 2 and dst_type_max
are for float4_e2m1.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.quant.dynamic_mx_quant import (
    MxPlan,
    check_rounding,
    find_target,
    stored_scales,
    stored_values,
)
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.dynamic_block_mx_quant import dynamic_block_mx_quant as reference
from graph_quant.reference.quant.mx_blocks import BY_MANTISSA, OCP, MxRule
from torch import Tensor

_BLOCK = 32


@operator("npu_dynamic_block_mx_quant", reference=reference, chips=(ASCEND_950,))
def dynamic_block_mx_quant(
    rules: Rules,
    input: Tensor,  # noqa: A002
    round_mode: str,
    dst_type: int | torch.dtype,
    scale_alg: int,
    dst_type_max: float,
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("input", input, (torch.float16, torch.bfloat16))
    rules.rank("input", input, 2, 3)
    rules.not_empty("input", input)
    target = find_target(rules, "dst_type", dst_type)
    rules.one_of("scale_alg", scale_alg, (OCP, BY_MANTISSA))
    check_rounding(rules, target, round_mode, scale_alg)
    maxima = (0.0, 6.0, 7.0) if scale_alg == BY_MANTISSA else (0.0,)
    rules.one_of("dst_type_max", dst_type_max, maxima, f" with scale_alg {scale_alg}")
    y = stored_values(rules, input.shape, target)
    one, other = (Result(stored_scales(input.shape, axis, _BLOCK), torch.uint8) for axis in (-1, -2))
    rule = MxRule(target, scale_alg, round_mode, dst_type_max=dst_type_max, keeps_tiny=True)
    return MxPlan((y, one, other), rule)
