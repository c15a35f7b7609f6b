"""GroupedMatmul: maps the node's lists and attributes to arguments of npu_grouped_matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant import quant_params
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.matmul.grouped_matmul import COLUMNS, grouped_matmul, nonempty
from graph_quant.reference.matmul.grouped_products import A4W4, A8W4, A8W8, ANTIQUANT, FLOAT
from torch import Tensor

# The node's attribute dtype as a torch dtype; -1 is the dtype of x.
_NODE_DTYPES = {0: torch.float16, 1: torch.bfloat16, 2: torch.int32}


@kernel("GroupedMatmul", flops=CONTRACTION)
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


@dataclass(frozen=True)
class _Shape:
    shape: tuple[Any, ...]


def _form(x: Tensor, weight: Tensor, has_bias: bool, packed: bool, output: torch.dtype) -> str:
    """The form of the products. int4 elements are int8 here; their scales are packed and their results floating."""
    if x.is_floating_point():
        return FLOAT if weight.is_floating_point() else ANTIQUANT
    if packed and output.is_floating_point:
        return A8W4 if has_bias else A4W4
    return A8W8
