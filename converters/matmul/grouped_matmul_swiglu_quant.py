"""npu_grouped_matmul_swiglu_quant and _v2 become GroupedMatmulSwigluQuantV2, the first with a constant for its offset.

int4 arrives as int32 and is unpacked by Bitcast and Reshape, packed parameters become UINT64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.converters.lowering import PROTO_FLOAT, absent, lowers, unpacked
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

Tensors = Sequence[Tensor]


@lowers("npu_grouped_matmul_swiglu_quant")
def lower(
    x: Tensor, weight: Tensor, group_list: Tensor, weight_scale: Tensor, x_scale: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The GE nodes of a call of the first version."""
    assist = None if bias is None else [bias]
    y, scale = lower_v2(x, [weight], [weight_scale], x_scale, group_list, None, assist, 0, 0, None)
    return y, scale, ge.Const(0.0)


@lowers("npu_grouped_matmul_swiglu_quant_v2")
def lower_v2(
    x: Tensor,
    weight: Tensors,
    weight_scale: Tensors,
    x_scale: Tensor,
    group_list: Tensor,
    smooth_scale: Tensor | None,
    weight_assist_matrix: Tensors | None,
    dequant_mode: int | None,
    group_list_type: int | None,
    tuning_config: Sequence[int] | None,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of a call of the second version."""
    y, scale = ge.GroupedMatmulSwigluQuantV2(
        x=_elements(x),
        x_scale=x_scale,
        group_list=group_list,
        weight=[_elements(operand) for operand in weight],
        weight_scale=[packed_scale(tensor) for tensor in weight_scale],
        weight_assist_matrix=list(weight_assist_matrix or ()) or [absent("float32")],
        bias=None,
        smooth_scale=smooth_scale,
        dequant_mode=dequant_mode or 0,
        dequant_dtype=TO_ATTRIBUTE["float32"],
        quant_mode=0,
        quant_dtype=TO_ATTRIBUTE["int8"],
        transpose_weight=False,
        group_list_type=group_list_type or 0,
        tuning_config=list(tuning_config or [0]),
    )
    y.desc.dtype, scale.desc.dtype = TO_DESC["int8"], PROTO_FLOAT
    return y, scale


def _elements(tensor: Tensor) -> Tensor:
    return unpacked(tensor, tensor.rank) if tensor.meta.dtype == torch.int32 else tensor
