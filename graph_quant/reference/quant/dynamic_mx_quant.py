"""npu_dynamic_mx_quant: blocks along an axis to float8 or four bits, with a power of two as the scale of each block."""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import OF_ATTRIBUTE, kernel, stored_dtype
from graph_quant.narrow_floats import FORMATS, NarrowFloat
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from torch import Tensor


def dynamic_mx_quant(input: Tensor, axis: int, rule: MxRule) -> tuple[Tensor, Tensor]:  # noqa: A002
    """Quantise as npu_dynamic_mx_quant does.

    Args:
        input: Tensor of float16, bfloat16 or float32.
        axis: The axis that blocks run along.
        rule: The format, the block size and how scales are computed.

    Returns:
        ``(y, mxscale)``: float8, or two float4 to a uint8; and uint8 codes of the scales, in pairs.
    """
    codes, scales = quantise_blocks(input, axis, rule)
    return store_values(codes, rule.target), store_scales(scales, axis)


def format_of_attribute(dst_type: int) -> NarrowFloat:
    """The format of a node's dtype attribute."""
    return next(target for target in FORMATS if target.name == OF_ATTRIBUTE[dst_type])


@kernel("DynamicMxQuant", flops=6, chips=(ASCEND_950,))
def dynamic_mx_quant_node(
    x: Tensor,
    *,
    axis: int = -1,
    round_mode: str = "rint",
    dst_type: int = 40,
    blocksize: int = 32,
    scale_alg: int = 0,
    dst_type_max: float = 0.0,
    max_low_bound: float = 0.0,
) -> tuple[Tensor, Tensor]:
    target = format_of_attribute(dst_type)
    codes, scales = quantise_blocks(
        x, axis, MxRule(target, scale_alg, round_mode, blocksize, dst_type_max, max_low_bound)
    )
    y = codes if target.dtype is not None else codes.view(stored_dtype(target.name))
    return y, store_scales(scales, axis).view(torch.float8_e8m0fnu)
