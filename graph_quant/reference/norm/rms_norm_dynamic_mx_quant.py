"""npu_rms_norm_dynamic_mx_quant, and with a residual addition before it: RMS norm and MX blocks along the last axis.

The norm is ``x * rstd * gamma + beta`` in float32, rounded to the dtype of x before it is quantised. A sum is
normalised before it is rounded.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel, stored_dtype
from graph_quant.reference.norm.rms import normalise, reciprocal_rms
from graph_quant.reference.quant.dynamic_mx_quant import format_of_attribute
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from torch import Tensor


def rms_norm_dynamic_mx_quant(
    x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, rule: MxRule
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, mxscale, rstd)``; rstd is empty.

    Args:
        x: Tensor of float16 or bfloat16.
        gamma: The weight of the norm.
        beta: What is added to the norm, or None.
        epsilon: What is added to the mean of the squares.
        rule: The format and how scales are computed.

    Returns:
        float8, or two float4 to a uint8; uint8 codes of scales, in pairs; and an empty float32 tensor.
    """
    codes, scales, _ = _quantise(x.float(), gamma, beta, epsilon, x.dtype, rule)
    return store_values(codes, rule.target), scales, x.new_empty((0,), dtype=torch.float32)


def add_rms_norm_dynamic_mx_quant(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, rule: MxRule
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(y, x1 + x2, mxscale, rstd)``, as ``rms_norm_dynamic_mx_quant`` of the sum before it is rounded."""
    wide = x1.float() + x2.float()
    codes, scales, _ = _quantise(wide, gamma, beta, epsilon, x1.dtype, rule)
    return store_values(codes, rule.target), wide.to(x1.dtype), scales, x1.new_empty((0,), dtype=torch.float32)


def _quantise(
    wide: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, dtype: torch.dtype, rule: MxRule
) -> tuple[Tensor, Tensor, Tensor]:
    """The codes, one to an element, those of the scales in pairs, and rstd."""
    codes, scales = quantise_blocks(normalise(wide, gamma, beta, epsilon).to(dtype), -1, rule)
    return codes, store_scales(scales, -1), reciprocal_rms(wide, 1, epsilon)


@kernel("RmsNormDynamicMxQuant", flops=12, chips=(ASCEND_950,))
def rms_norm_dynamic_mx_quant_node(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    scale_alg: int = 0,
    round_mode: str = "rint",
    dst_type: int = 40,
    output_rstd: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    rule = MxRule(format_of_attribute(dst_type), scale_alg, round_mode)
    codes, scales, rstd = _quantise(x.float(), gamma, beta, epsilon, x.dtype, rule)
    rstd = rstd if output_rstd else rstd.new_empty((0,))
    return codes.view(stored_dtype(rule.target.name)), scales.view(torch.float8_e8m0fnu), rstd


@kernel("AddRmsNormDynamicMxQuant", flops=13, chips=(ASCEND_950,))
def add_rms_norm_dynamic_mx_quant_node(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    scale_alg: int = 0,
    round_mode: str = "rint",
    dst_type: int = 40,
    output_rstd: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rule = MxRule(format_of_attribute(dst_type), scale_alg, round_mode)
    wide = x1.float() + x2.float()
    codes, scales, rstd = _quantise(wide, gamma, beta, epsilon, x1.dtype, rule)
    rstd = rstd if output_rstd else rstd.new_empty((0,))
    y = codes.view(stored_dtype(rule.target.name))
    return y, wide.to(x1.dtype), scales.view(torch.float8_e8m0fnu), rstd
