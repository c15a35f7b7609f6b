"""npu_swiglu_mx_quant, and with blocks along two axes: SwiGLU, rounded to the input's dtype, and MX quantisation."""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel, stored_dtype
from graph_quant.reference.activation.activation_functions import apply_swiglu
from graph_quant.reference.grouping import COUNTS, ENDS
from graph_quant.reference.quant.dynamic_mx_quant import format_of_attribute
from graph_quant.reference.quant.grouped_mx_blocks import grouped_mx_blocks
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from torch import Tensor

_DUAL = "npu_swiglu_mx_quant_with_dual_axis"


def swiglu_mx_quant(
    x: Tensor,
    group_index: Tensor | None,
    activate_left: bool,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
    along: int,
    axis: int,
    rule: MxRule,
) -> tuple[Tensor, Tensor]:
    """Quantise the SwiGLU of ``x`` as npu_swiglu_mx_quant does.

    Args:
        x: Tensor of float16 or bfloat16.
        group_index: The number of rows of each group, or None.
        activate_left: Whether the first half is activated, and not the second.
        swiglu_mode: 0 for halves; 1 for even and odd columns, with the next three arguments.
        clamp_limit: The bound of both operands in mode 1.
        glu_alpha: The factor inside the sigmoid in mode 1.
        glu_bias: What is added to the linear operand in mode 1.
        along: The axis of the halves, -1 or -2.
        axis: The axis that blocks run along, -1 or -2.
        rule: The format and how scales are computed.

    Returns:
        ``(y, mxscale)``: float8, or two float4 to a uint8; and uint8 codes of scales, in pairs.
    """
    values = _activate(x, along, activate_left, (swiglu_mode, clamp_limit, glu_alpha, glu_bias))
    codes, scales = _quantise(values, group_index, axis, rule)
    return store_values(codes, rule.target), scales


def _activate(x: Tensor, along: int, activate_left: bool, options: tuple[int, float, float, float]) -> Tensor:
    """The SwiGLU of ``x`` in its dtype."""
    if along == -1:
        return apply_swiglu(x.float(), activate_left, *options).to(x.dtype)
    return apply_swiglu(x.transpose(-1, -2).float(), activate_left, *options).to(x.dtype).transpose(-1, -2)


def _quantise(values: Tensor, group_index: Tensor | None, axis: int, rule: MxRule) -> tuple[Tensor, Tensor]:
    """The codes of ``values``, one to an element, and of the scales in pairs."""
    if group_index is None:
        codes, scales = quantise_blocks(values, axis, rule)
        return codes, store_scales(scales, axis)
    rows = values.reshape(values.shape[:-1].numel(), values.size(-1)).contiguous()
    codes, scales = _quantise_groups(rows, group_index, "npu_swiglu_mx_quant", COUNTS, axis, rule)
    return codes.reshape(values.shape), scales.reshape(*values.shape[:-1], -1, 2) if axis == -1 else scales


def _quantise_groups(
    rows: Tensor, group_index: Tensor, op: str, kind: int, axis: int, rule: MxRule
) -> tuple[Tensor, Tensor]:
    target = rule.target
    codes, scales = grouped_mx_blocks(rows, group_index, op, kind, axis, target.name, rule.round_mode, rule.scale_alg)
    return codes if target.dtype is None else codes.view(target.dtype), scales


@kernel("SwigluMxQuant", flops=11, chips=(ASCEND_950,), idle=("max_dtype_value",))
def swiglu_mx_quant_node(
    x: Tensor,
    group_index: Tensor | None = None,
    *,
    activate_dim: int = -1,
    activate_left: bool = False,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
    group_mode: int = 0,
    axis: int = -1,
    dst_type: int = 40,
    round_mode: str = "rint",
    scale_alg: int = 0,
) -> tuple[Tensor, Tensor]:
    if group_mode or scale_alg not in (0, 1):
        raise NotImplementedError(f"SwigluMxQuant: group_mode {group_mode}, scale_alg {scale_alg} has no host kernel")
    along, axis = (dim if dim < 0 else dim - x.dim() for dim in (activate_dim, axis))
    target = format_of_attribute(dst_type)
    values = _activate(x, along, activate_left, (swiglu_mode, clamp_limit, glu_alpha, glu_bias))
    codes, scales = _quantise(values, group_index, axis, MxRule(target, scale_alg, round_mode, keeps_tiny=True))
    return codes.view(stored_dtype(target.name)), scales.view(torch.float8_e8m0fnu)


def swiglu_mx_quant_with_dual_axis(
    x: Tensor, group_index: Tensor | None, activate_left: bool, rule: MxRule
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Quantise the SwiGLU of a matrix along both axes as npu_swiglu_mx_quant_with_dual_axis does.

    Args:
        x: Matrix of float16 or bfloat16.
        group_index: The end of each group of rows, or None.
        activate_left: Whether the first half is activated, and not the second.
        rule: The format and how scales are computed.

    Returns:
        ``(y1, mxscale1, y2, mxscale2)``: values and scales along the last axis, and along the first.
    """
    results: list[Tensor] = []
    for codes, scales in _quantise_twice(x, group_index, activate_left, rule):
        results += [store_values(codes, rule.target), scales]
    return results[0], results[1], results[2], results[3]


def _quantise_twice(
    x: Tensor, group_index: Tensor | None, activate_left: bool, rule: MxRule
) -> list[tuple[Tensor, Tensor]]:
    values = _activate(x, -1, activate_left, (0, 0.0, 1.0, 0.0))
    if group_index is None:
        return [_quantise(values, None, axis, rule) for axis in (-1, -2)]
    return [_quantise_groups(values, group_index, _DUAL, ENDS, axis, rule) for axis in (-1, -2)]


@kernel("SwigluMxQuantWithDualAxis", flops=16, chips=(ASCEND_950,), idle=("max_dtype_value",))
def swiglu_mx_quant_with_dual_axis_node(
    x: Tensor,
    group_index: Tensor | None = None,
    *,
    activate_left: bool = True,
    round_mode: str = "rint",
    scale_alg: int = 1,
    dst_type: int = 36,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    target = format_of_attribute(dst_type)
    rule = MxRule(target, scale_alg, round_mode, keeps_tiny=True)
    results: list[Tensor] = []
    for codes, scales in _quantise_twice(x, group_index, activate_left, rule):
        results += [codes.view(stored_dtype(target.name)), scales.view(torch.float8_e8m0fnu)]
    return results[0], results[1], results[2], results[3]
