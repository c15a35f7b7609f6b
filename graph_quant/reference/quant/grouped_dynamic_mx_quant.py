"""npu_grouped_dynamic_mx_quant: MX blocks along the rows of every group of rows.

The scales of group i begin at the pair of blocks ``start // 64 + i``, so that groups share no pair. The kernel leaves
pairs between two groups as they are in memory; here they are 0.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel, stored_dtype
from graph_quant.narrow_floats import FORMATS
from graph_quant.reference.blocks import checked_ends
from graph_quant.reference.opaque import opaque
from graph_quant.reference.quant.dynamic_mx_quant import format_of_attribute
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from torch import Tensor

_OP = "npu_grouped_dynamic_mx_quant"
_PAIR = 64


def grouped_dynamic_mx_quant(x: Tensor, group_index: Tensor, rule: MxRule) -> tuple[Tensor, Tensor]:
    """Quantise as npu_grouped_dynamic_mx_quant does.

    Args:
        x: Matrix of float16 or bfloat16.
        group_index: The ends of the groups of rows, int32.
        rule: The format and how scales are computed.

    Returns:
        ``(y, mxscale)``: float8, or two float4 to a uint8; and uint8 codes of scales, in pairs.
    """
    codes, scales = grouped_mx_codes(x, group_index, rule.target.name, rule.round_mode, rule.scale_alg)
    return store_values(codes if rule.target.dtype is None else codes.view(rule.target.dtype), rule.target), scales


def _infer(x: Tensor, group_index: Tensor, _name: str, _mode: str, _scale_alg: int) -> tuple[Tensor, Tensor]:
    codes = x.new_empty(x.shape, dtype=torch.uint8)
    return codes, x.new_empty((x.size(0) // _PAIR + group_index.size(0), x.size(1), 2), dtype=torch.uint8)


@opaque(_infer)
def grouped_mx_codes(
    x: Tensor, group_index: Tensor, name: str, round_mode: str, scale_alg: int
) -> tuple[Tensor, Tensor]:
    """The codes of the elements as bytes, and those of the scales."""
    target = next(candidate for candidate in FORMATS if candidate.name == name)
    codes, scales = _infer(x, group_index, name, round_mode, scale_alg)
    scales.zero_()
    start = 0
    for index, end in enumerate(checked_ends(_OP, group_index, x.size(0)).tolist()):
        if end > start:
            rows, shared = quantise_blocks(x[start:end], 0, MxRule(target, scale_alg, round_mode))
            codes[start:end] = rows.view(torch.uint8)
            pairs, first = store_scales(shared, 0), start // _PAIR + index
            scales[first : first + pairs.size(0)] = pairs
        start = end
    return codes, scales


@kernel("GroupedDynamicMxQuant", flops=6, chips=(ASCEND_950,), idle=("blocksize",))
def grouped_dynamic_mx_quant_node(
    x: Tensor,
    group_index: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 35,
    scale_alg: int = 0,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    if scale_alg not in (0, 1) or dst_type_max:
        raise NotImplementedError(f"GroupedDynamicMxQuant: scale_alg {scale_alg} has no host kernel")
    target = format_of_attribute(dst_type)
    codes, scales = grouped_mx_codes(x, group_index, target.name, round_mode, scale_alg)
    return codes.view(stored_dtype(target.name)), scales.view(torch.float8_e8m0fnu)
