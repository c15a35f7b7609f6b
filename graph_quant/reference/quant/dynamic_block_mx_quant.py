"""npu_dynamic_block_mx_quant: MX blocks of 32 rows and 32 columns, with the scale of each for both axes."""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel, stored_dtype
from graph_quant.narrow_floats import FORMATS, encode
from graph_quant.reference.opaque import opaque
from graph_quant.reference.quant.dynamic_mx_quant import format_of_attribute
from graph_quant.reference.quant.mx_blocks import MxRule, scale_blocks, store_scales, store_values
from torch import Tensor
from torch.nn import functional

_BLOCK = 32


def dynamic_block_mx_quant(input: Tensor, rule: MxRule) -> tuple[Tensor, Tensor, Tensor]:  # noqa: A002
    """Quantise as npu_dynamic_block_mx_quant does.

    Args:
        input: Tensor of float16 or bfloat16.
        rule: The format and how scales are computed.

    Returns:
        ``(y, scale1, scale2)``: float8, or two float4 to a uint8; and uint8 codes of the scales in pairs, for each row
        along the last axis, and for each column along the axis before it.
    """
    codes, one, other = _quantise(input, rule)
    return store_values(codes, rule.target), one, other


def _quantise(x: Tensor, rule: MxRule) -> tuple[Tensor, Tensor, Tensor]:
    """The codes, one to an element, and those of the scales in pairs."""
    codes, scales = square_mx_blocks(x, rule.target.name, rule.round_mode, rule.scale_alg, rule.dst_type_max)
    of_rows = scales.repeat_interleave(_BLOCK, -2)[..., : x.size(-2), :]
    of_columns = scales.repeat_interleave(_BLOCK, -1)[..., : x.size(-1)]
    codes = codes if rule.target.dtype is None else codes.view(rule.target.dtype)
    return codes, store_scales(of_rows, -1), store_scales(of_columns, -2)


def _infer(x: Tensor, _name: str, _mode: str, _scale_alg: int, _dst_type_max: float) -> tuple[Tensor, Tensor]:
    blocks = ((x.size(-2) + _BLOCK - 1) // _BLOCK, (x.size(-1) + _BLOCK - 1) // _BLOCK)
    codes = x.new_empty(x.shape, dtype=torch.uint8)
    return codes, x.new_empty((*x.shape[:-2], *blocks), dtype=torch.uint8)


@opaque(_infer)
def square_mx_blocks(
    x: Tensor, name: str, round_mode: str, scale_alg: int, dst_type_max: float
) -> tuple[Tensor, Tensor]:
    """The codes of elements as bytes, and those of the scales of blocks."""
    target = next(candidate for candidate in FORMATS if candidate.name == name)
    rule = MxRule(target, scale_alg, round_mode, dst_type_max=dst_type_max, keeps_tiny=True)
    rows, columns = x.shape[-2:]
    padded = functional.pad(x, (0, -columns % _BLOCK, 0, -rows % _BLOCK))
    blocks = padded.unflatten(-1, (-1, _BLOCK)).unflatten(-3, (-1, _BLOCK))
    scales, multiplier = scale_blocks(blocks.abs().amax((-3, -1)), rule, x.dtype)
    values = blocks.float() * multiplier.unsqueeze(-1).unsqueeze(-3)
    y = encode(values, target, round_mode).view(torch.uint8).flatten(-4, -3).flatten(-2)
    return y[..., :rows, :columns].contiguous(), scales


@kernel("DynamicBlockMxQuant", flops=6, chips=(ASCEND_950,))
def dynamic_block_mx_quant_node(
    x: Tensor, *, round_mode: str = "rint", dst_type: int = 40, scale_alg: int = 0, dst_type_max: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    target = format_of_attribute(dst_type)
    rule = MxRule(target, scale_alg, round_mode, dst_type_max=dst_type_max, keeps_tiny=True)
    codes, one, other = _quantise(x, rule)
    y = codes.view(stored_dtype(target.name))
    return y, one.view(torch.float8_e8m0fnu), other.view(torch.float8_e8m0fnu)
