"""npu_dynamic_mx_quant_with_dual_axis: what may be passed, and what comes back. Only Ascend 950 has it.

input is float16 or bfloat16 of two to seven dimensions, in blocks of 32 along the last axis and along the last but one.
Rounding and scales are those of npu_dynamic_mx_quant; dst_type_max, from 6 to 12, has an effect with scale_alg 2 alone.
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
from graph_quant.reference.quant.dynamic_mx_quant_with_dual_axis import dynamic_mx_quant_with_dual_axis as reference
from graph_quant.reference.quant.mx_blocks import BY_MANTISSA, MxRule
from torch import Tensor

_BLOCK = 32


@operator("npu_dynamic_mx_quant_with_dual_axis", reference=reference, chips=(ASCEND_950,))
def dynamic_mx_quant_with_dual_axis(
    rules: Rules,
    input: Tensor,  # noqa: A002
    round_mode: str,
    dst_type: int | torch.dtype,
    scale_alg: int,
    dst_type_max: float | None,
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("input", input, (torch.float16, torch.bfloat16))
    rules.rank("input", input, 2, 7)
    target = find_target(rules, "dst_type", dst_type)
    check_rounding(rules, target, round_mode, scale_alg)
    largest = dst_type_max or 0.0
    rules.require(
        largest == 0 or 6 <= largest <= 12, lambda: f"dst_type_max must be 0 or from 6 to 12, got {dst_type_max}"
    )
    used = largest if scale_alg == BY_MANTISSA else 0.0
    rule = MxRule(target, scale_alg, round_mode, dst_type_max=used, keeps_tiny=True)
    y = stored_values(rules, input.shape, target)
    scales = [Result(stored_scales(input.shape, axis, _BLOCK), torch.uint8) for axis in (-1, -2)]
    return MxPlan((y, scales[0], y, scales[1]), rule)
