"""GroupedMatmul: maps the node's lists and attributes to arguments of npu_grouped_matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant import chip, quant_params
from graph_quant.chip import A2_A3_950
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.matmul.grouped_matmul import COLUMNS, first_of, grouped_matmul, nonempty
from graph_quant.reference.matmul.grouped_narrow import is_of_column_blocks, scaled_groups
from graph_quant.reference.matmul.grouped_products import A4W4, A8W4, A8W8, ANTIQUANT, ANTIQUANT_950, FLOAT
from graph_quant.refusals import UndescribedError
from torch import Tensor

# The node's attribute dtype as a torch dtype; -1 is the dtype of x.
_NODE_DTYPES = {0: torch.float16, 1: torch.bfloat16, 2: torch.int32}
_NODE_DTYPES_950 = {**_NODE_DTYPES, -1: torch.int8, 3: torch.float32}


@kernel("GroupedMatmul", flops=CONTRACTION, chips=A2_A3_950)
def grouped_matmul_node(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    bias: Sequence[Tensor],
    scale: Sequence[Tensor],
    offset: Sequence[Tensor],
    antiquant_scale: Sequence[Tensor],
    antiquant_offset: Sequence[Tensor],
    group_list: Tensor | None = None,
    per_token_scale: Tensor | None = None,
    *,
    split_item: int = 0,
    dtype: int = 0,
    transpose_weight: bool = False,
    transpose_x: bool = False,
    group_type: int = -1,
    group_list_type: int = 0,
    act_type: int = 0,
    tuning_config: Sequence[int] = (0,),
) -> list[Tensor]:
    """Compute the node. GE's int4 tensors have one int4 per element; an absent list holds one empty tensor."""
    bias, scale, offset = nonempty(bias), nonempty(scale), nonempty(offset)
    scales = [quant_params.signed(tensor) for tensor in scale]
    x = [tensor.mT for tensor in x] if transpose_x else x
    weight = [tensor.mT for tensor in weight] if transpose_weight else weight
    if chip.is_950() and x[0].element_size() == weight[0].element_size() == 1:
        parameters = first_of(bias), first_of(scales), per_token_scale, transpose_x, transpose_weight
        settings = group_list, group_type, group_list_type, act_type, dtype
        return [_quantised_950(x[0], weight[0], *parameters, *settings)]
    output = _NODE_DTYPES.get(dtype, x[0].dtype) if x[0].dtype == torch.int8 else x[0].dtype
    widths, groups = [tensor.size(-1) for tensor in weight], None if group_list is None else group_list.size(0)
    if group_type == COLUMNS:
        shapes: list[tuple[Any, ...]] = [(groups, x[0].size(0), widths[0])]
    elif split_item in (2, 3):
        shapes = [(sum(tensor.size(0) for tensor in x), widths[0])]
    else:
        shapes = [(*tensor.shape[:-1], width) for tensor, width in zip(x, widths, strict=True)]
    return grouped_matmul(
        x,
        weight,
        bias,
        scales,
        offset,
        nonempty(antiquant_scale),
        nonempty(antiquant_offset),
        None if per_token_scale is None else [per_token_scale],
        group_list,
        [_Shape(shape) for shape in shapes],
        _form(x[0], weight[0], bool(bias), bool(scales) and scales[0].dtype == torch.int64, output),
        output,
        False,
        group_type,
        group_list_type,
        act_type,
        tuning_config[0] if tuning_config else 0,
    )


def _quantised_950(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    tokens: Tensor | None,
    transpose_x: bool,
    transpose_weight: bool,
    group_list: Tensor | None,
    group_type: int,
    list_type: int,
    activation: int,
    dtype: int,
) -> Tensor:
    """Scales of blocks, and only those, are transposed as their operands are."""
    if group_list is None:
        raise TypeError("group_list must be given")
    is_mx = scale is not None and scale.dtype == torch.float8_e8m0fnu
    if x.dtype == torch.int8 and scale is not None and (is_mx or scale.dim() == weight.dim()):
        raise UndescribedError("GroupedMatmul: int4 is not described for Ascend 950 yet")
    if is_mx and scale is not None and tokens is not None:
        scale, tokens = scale.view(torch.uint8), tokens.view(torch.uint8)
    if scale is not None and transpose_weight and (is_mx or scale.dim() == weight.dim() == 3):
        scale = scale.transpose(-3, -2) if is_mx else scale.mT
    if scale is not None and tokens is not None and transpose_x:
        is_of_blocks = tokens.dim() == 2 and is_of_column_blocks(group_list.size(0), weight, scale)
        tokens = tokens.transpose(0, 1) if is_mx or is_of_blocks else tokens
    settings = group_list, group_type, list_type, activation, _NODE_DTYPES_950[dtype]
    return scaled_groups(x, weight, bias, scale, tokens, *settings)


@dataclass(frozen=True)
class _Shape:
    shape: tuple[Any, ...]


def _form(x: Tensor, weight: Tensor, has_bias: bool, packed: bool, output: torch.dtype) -> str:
    """The form of the products. int4 elements are int8 here; their scales are packed and their results floating."""
    if x.is_floating_point():
        if weight.is_floating_point():
            return FLOAT
        return ANTIQUANT_950 if chip.is_950() else ANTIQUANT
    if packed and output.is_floating_point:
        return A8W4 if has_bias else A4W4
    return A8W8
