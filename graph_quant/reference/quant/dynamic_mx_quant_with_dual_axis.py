"""npu_dynamic_mx_quant_with_dual_axis: MX blocks along the last axis, and along the last but one."""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel, stored_dtype
from graph_quant.reference.quant.dynamic_mx_quant import format_of_attribute
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from torch import Tensor

Quantised = tuple[Tensor, Tensor, Tensor, Tensor]


def dynamic_mx_quant_with_dual_axis(input: Tensor, rule: MxRule) -> Quantised:  # noqa: A002
    """Quantise as npu_dynamic_mx_quant_with_dual_axis does.

    Args:
        input: Tensor of float16 or bfloat16.
        rule: The format and how scales are computed.

    Returns:
        ``(y1, mxscale1, y2, mxscale2)``: values and uint8 codes of scales along the last axis, and along the last but
        one; float4 packed along the last axis.
    """
    one, one_scales = quantise_blocks(input, -1, rule)
    other, other_scales = quantise_blocks(input, -2, rule)
    values = (store_values(one, rule.target), store_values(other, rule.target))
    return values[0], store_scales(one_scales, -1), values[1], store_scales(other_scales, -2)


@kernel("DynamicMxQuantWithDualAxis", flops=12, chips=(ASCEND_950,))
def dynamic_mx_quant_with_dual_axis_node(
    x: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 40,
    scale_alg: int = 0,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    target = format_of_attribute(dst_type)
    rule = MxRule(target, scale_alg, round_mode, dst_type_max=dst_type_max, keeps_tiny=True)
    results = []
    for axis in (-1, -2):
        codes, scales = quantise_blocks(x, axis, rule)
        results.append(codes if target.dtype is not None else codes.view(stored_dtype(target.name)))
        results.append(store_scales(scales, axis).view(torch.float8_e8m0fnu))
    return results[0], results[1], results[2], results[3]
