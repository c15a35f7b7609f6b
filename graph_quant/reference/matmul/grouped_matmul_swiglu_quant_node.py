"""GroupedMatmulSwigluQuantV2: maps the node's lists to arguments of npu_grouped_matmul_swiglu_quant_v2."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import chip
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8
from graph_quant.ge import CONTRACTION, OF_ATTRIBUTE, from_attr, kernel, stored_dtype
from graph_quant.reference.matmul.grouped_matmul_swiglu_quant import grouped_matmul_swiglu_quant_v2
from graph_quant.reference.matmul.narrow_swiglu_quant import narrow_format, narrow_swiglu_quant
from graph_quant.refusals import UndescribedError
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)


@kernel("GroupedMatmulSwigluQuantV2", flops=CONTRACTION, idle=("tuning_config", "dequant_mode"), chips=A2_A3_950)
def grouped_matmul_swiglu_quant_node(
    x: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    weight: Sequence[Tensor],
    weight_scale: Sequence[Tensor],
    weight_assist_matrix: Sequence[Tensor],
    bias: Tensor | None = None,  # noqa: ARG001
    smooth_scale: Tensor | None = None,
    *,
    dequant_dtype: int = 0,
    quant_mode: int = 0,
    quant_dtype: int = 0,
    transpose_weight: bool = False,
    group_list_type: int = 0,
) -> tuple[Tensor, Tensor]:
    if chip.is_950():
        return _on_950(
            x,
            weight[0].mT if transpose_weight else weight[0],
            weight_scale[0],
            x_scale,
            group_list,
            group_list_type,
            dequant_dtype,
            quant_dtype,
            transpose_weight,
        )
    if quant_mode != 0 or quant_dtype not in (0, INT8.ge_attr) or transpose_weight:
        raise UndescribedError("GroupedMatmulSwigluQuantV2: this form is of Ascend 950; A2 and A3 quantise to int8")
    assist = [matrix for matrix in weight_assist_matrix if matrix.dim() > 1]
    tensors = x, list(weight), list(weight_scale), x_scale, group_list
    return grouped_matmul_swiglu_quant_v2(*tensors, smooth_scale, assist or None, group_list_type)


def _on_950(
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    list_type: int,
    dequant_dtype: int,
    quant_dtype: int,
    transpose_weight: bool,
) -> tuple[Tensor, Tensor]:
    """MX scales are transposed as their weight is."""
    is_mx = x_scale.dtype == torch.float8_e8m0fnu
    if is_mx:
        weight_scale = weight_scale.transpose(-3, -2) if transpose_weight else weight_scale
        weight_scale, x_scale = weight_scale.view(torch.uint8), x_scale.view(torch.uint8)
    target = OF_ATTRIBUTE[quant_dtype] if quant_dtype else INT8.name
    between = from_attr(dequant_dtype)
    between = between if between in _HALVES else torch.float32
    y, scale = narrow_swiglu_quant(x, weight, weight_scale, x_scale, group_list, list_type, target, between)
    narrow = narrow_format(target)
    if narrow is not None and narrow.dtype is None:
        y = y.view(stored_dtype(target))
    return y, scale.view(torch.float8_e8m0fnu) if is_mx else scale
