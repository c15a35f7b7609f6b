"""npu_grouped_matmul on Ascend 950: int8, float8, HiFloat8 and float4 with scales, of one x and one weight.

``acc`` is the product of a group in float32, of int8 in int32; every step is rounded to float32.

========= ====================================================================================================
scales    result of a group
========= ====================================================================================================
none      ``acc + int32 bias``, int32
packed    ``(acc + int32 bias) * scale`` with the 19 bits of a packed scale; int8 as on other chips
tensor    a scale of one element for each group, and none or one for x: times 19 bits of it, or of the product of both
channels  ``(acc + int32 bias) * scale * per_token_scale + bias`` and the activation; also a scale of one element
          beside one for each token or a float bias
blocks    for each 128 of k ``acc * (per_token_scale * scale)``, added up in that order
mx        ``(x * per_token_scale) @ (weight * scale) + bias``, a scale for every 32 of k
========= ====================================================================================================

With group_type 2, where a group is columns of x, the scales of blocks of group i start at row ``start // 128 + i``, of
MX at ``start // 64 + i``; the result of an empty group is zero. Rows of no group are not written on the device, and
zero here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant import quant_params
from graph_quant.reference.activation.activation_functions import apply_activation_950
from graph_quant.reference.grouping import Span, spans
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.narrow_products import carried, multiply_mx, multiply_narrow
from graph_quant.reference.matmul.quant_matmul_950 import INT8, K_BLOCK, N_BLOCK, keep_19_bits, multiply_blocks
from graph_quant.reference.matmul.requantise import requantise
from graph_quant.reference.opaque import opaque
from torch import Tensor

_OP = "npu_grouped_matmul"
ROWS, COLUMNS = 0, 2
# What a scale is of.
TENSOR, CHANNEL, TOKEN, BLOCKS, MX = "tensor", "channel", "token", "blocks", "mx"
# The k that a pair of MX scales is for.
MX_PAIR = 64


@dataclass(frozen=True)
class GroupedForm:
    """What a call of npu_grouped_matmul on Ascend 950 means.

    Attributes:
        x: GE's name of the dtype of x.
        weight: That of the weight.
        weight_along_k: Whether float4 weights are packed along k, as in a transposed view.
        is_mx: Whether the scales are codes of float8_e8m0fnu.
    """

    x: str
    weight: str
    weight_along_k: bool = False
    is_mx: bool = False


def grouped_matmul_950(
    form: GroupedForm,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    tokens: Tensor | None,
    group_list: Tensor,
    group_type: int,
    list_type: int,
    activation: int,
    dtype: torch.dtype,
) -> Tensor:
    """The product of operands as torch passes them; ``tokens`` is per_token_scale."""
    if form.x != INT8:
        x = carried(x, form.x)
        weight = carried(weight, form.weight, is_packed_along_rows=form.weight_along_k)
    if form.is_mx:
        assert scale is not None
        assert tokens is not None
        scale, tokens = scale.view(torch.uint8), tokens.view(torch.uint8)
    scale = None if scale is None else quant_params.signed(scale)
    return scaled_groups(x, weight, bias, scale, tokens, group_list, group_type, list_type, activation, dtype)


def _infer(x: Tensor, weight: Tensor, *arguments: object) -> Tensor:
    group_list, group_type, dtype = arguments[3], arguments[4], arguments[-1]
    rows = (x.size(0), weight.size(-1))
    shape = (group_list.size(0), *rows) if group_type == COLUMNS else rows  # type: ignore[attr-defined]
    return x.new_empty(shape, dtype=dtype)  # type: ignore[call-overload,no-any-return]


@opaque(_infer)
def scaled_groups(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    tokens: Tensor | None,
    group_list: Tensor,
    group_type: int,
    list_type: int,
    activation: int,
    dtype: torch.dtype,
) -> Tensor:
    """The products of groups of operands that are carried as in a graph."""
    y = _infer(x, weight, bias, scale, tokens, group_list, group_type, dtype).zero_()
    groups = group_list.size(0)
    extent = x.size(1) if group_type == COLUMNS else x.size(0)
    modes = None if scale is None else _find_modes(group_type, groups, x, weight, scale, tokens, activation)
    for span in spans(_OP, group_list, list_type, groups, extent):
        if group_type == COLUMNS:
            left, right, target = x[:, span.as_slice], weight[span.as_slice], y[span.weight]
        else:
            left, right, target = x[span.as_slice], weight[span.weight], y[span.as_slice]
        added = None if bias is None else bias[span.weight]
        if scale is None or modes is None:
            target.copy_(_add_integers(int8_matmul(left, right), added)[0])
        elif modes.of_weight == MX and tokens is not None:
            values = multiply_mx(left, right, *_scales_of_blocks(span, group_type, MX_PAIR, tokens, scale))
            target.copy_(values if added is None else values + added)
        elif modes.of_weight == BLOCKS and tokens is not None:
            rows, columns = _scales_of_blocks(span, group_type, K_BLOCK, tokens, scale)
            target.copy_(multiply_blocks(left, right, columns, rows))
        else:
            target.copy_(_scaled(left, right, added, *_select(span, group_type, modes, scale, tokens), modes, dtype))
    return y


@dataclass(frozen=True)
class _Modes:
    """What the scales are of, and the activation."""

    of_weight: str
    of_x: str | None
    activation: int


def _find_modes(
    group_type: int,
    groups: int,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    tokens: Tensor | None,
    activation: int,
) -> _Modes:
    if scale.dtype == torch.uint8:
        return _Modes(MX, MX, 0)
    if tokens is not None and has_blocks(group_type, groups, x, weight, scale, tokens):
        return _Modes(BLOCKS, BLOCKS, 0)
    # A scale of one column is one for each group, except beside an activation.
    is_wide = scale.dim() == 2 and scale.size(1) == weight.size(-1) and (weight.size(-1) != 1 or activation != 0)
    of_weight = CHANNEL if is_wide else TENSOR
    if tokens is None:
        return _Modes(of_weight, None, activation)
    is_row_of_groups = tokens.dim() == 1 and tokens.size(0) == groups
    is_tensor = (tokens.dim() == 2 and tokens.size(1) == 1) or (
        is_row_of_groups and (group_type == COLUMNS or groups != x.size(0))
    )
    return _Modes(of_weight, TENSOR if is_tensor and x.dtype != torch.int8 else TOKEN, activation)


def has_blocks(group_type: int, groups: int, x: Tensor, weight: Tensor, scale: Tensor, tokens: Tensor) -> bool:
    """Whether the scales are of blocks of 128; concrete sizes only."""
    if x.dtype == torch.int8 or scale.dim() != weight.dim() or tokens.dim() != x.dim():
        return False
    if group_type == ROWS:
        return True
    sizes = (x.size(0), scale.size(0))
    return is_of_column_blocks(groups, weight, scale) and tokens.shape in (sizes, sizes[::-1])


def is_of_column_blocks(groups: int, weight: Tensor, scale: Tensor) -> bool:
    """Whether a scale has the sizes of one of blocks of 128 of a weight whose rows are divided."""
    return scale.shape == (weight.size(0) // K_BLOCK + groups, -(-weight.size(1) // N_BLOCK))


def _scales_of_blocks(span: Span, group_type: int, block: int, tokens: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """The scales of a group of x, (m, blocks, …), and of its weight, (blocks, n, …)."""
    if group_type == ROWS:
        return tokens[span.as_slice], scale[span.weight]
    start = span.start // block + span.weight
    rows = slice(start, start - (span.start - span.end) // block)
    if tokens.size(1) != scale.size(0):
        tokens = tokens.transpose(0, 1)
    return tokens[:, rows], scale[rows]


def _select(
    span: Span, group_type: int, modes: _Modes, scale: Tensor, tokens: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The scales of the weight of a group, and those of its rows of x."""
    if tokens is not None:
        is_of_rows = modes.of_x == TOKEN and group_type == ROWS
        tokens = (tokens[span.as_slice] if is_of_rows else tokens[span.weight]).reshape(-1)
    return scale[span.weight].reshape(-1), tokens


def _add_integers(accumulator: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The accumulator with an int32 bias, and a float bias that is added later."""
    if bias is None or bias.dtype != torch.int32:
        return accumulator, bias
    return accumulator + bias, None


def _scaled(
    left: Tensor,
    right: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    tokens: Tensor | None,
    modes: _Modes,
    dtype: torch.dtype,
) -> Tensor:
    if left.dtype == torch.int8:
        accumulator, bias = _add_integers(int8_matmul(left, right), bias)
        if dtype == torch.int8:
            return requantise(accumulator, scale)
        values = accumulator.float()
    else:
        values = multiply_narrow(left, right)
    if scale.dtype == torch.int64:
        return (values * quant_params.decode(scale)[0]).to(dtype)
    scale = scale.float()
    if modes.of_weight == TENSOR and modes.of_x != TOKEN and bias is None:
        return (values * keep_19_bits(scale if tokens is None else scale * tokens)).to(dtype)
    values = values * scale
    if tokens is not None:
        values = values * tokens.unsqueeze(-1)
    return apply_activation_950(values if bias is None else values + bias.float(), modes.activation).to(dtype)
