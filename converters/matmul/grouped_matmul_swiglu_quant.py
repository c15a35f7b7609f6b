"""npu_grouped_matmul_swiglu_quant and _v2 become GroupedMatmulSwigluQuantV2, the first with a constant for its offset.

int4 arrives as int32 and is unpacked by Bitcast and Reshape, packed parameters become UINT64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.converters.lowering import PROTO_FLOAT, absent, lowers, unpacked
from graph_quant.converters.matmul.grouped_matmul_950 import lower_operands
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.destination import HIFLOAT8
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.reference.matmul.narrow_swiglu_quant import SwigluForm, narrow_format
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
    form: SwigluForm | None = None,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of a call of the second version."""
    if form is not None:
        return _on_950(form, x, weight, weight_scale, x_scale, group_list, group_list_type or 0)
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


def _on_950(
    form: SwigluForm,
    x: Tensor,
    weight: Tensors,
    weight_scale: Tensors,
    x_scale: Tensor,
    group_list: Tensor,
    list_type: int,
) -> tuple[Tensor, Tensor]:
    operands, is_mx = form.operands, form.operands.is_mx
    (x,), weight, scales, (token_scale,) = lower_operands(operands, [x], weight, weight_scale, [x_scale])
    y, scale = ge.GroupedMatmulSwigluQuantV2(
        x=x,
        x_scale=token_scale,
        group_list=group_list,
        weight=list(weight),
        weight_scale=list(scales),
        weight_assist_matrix=[absent("float32")],
        bias=None,
        smooth_scale=None,
        dequant_mode=2 if is_mx else 0,
        dequant_dtype=TO_ATTRIBUTE[str(form.between).removeprefix("torch.")],
        quant_mode=2 if is_mx else 0,
        quant_dtype=TO_ATTRIBUTE[form.target],
        transpose_weight=False,
        group_list_type=list_type,
        tuning_config=[0],
    )
    scale.desc.dtype = TO_DESC["float8_e8m0"] if is_mx else PROTO_FLOAT
    y.desc.dtype = TO_DESC[form.target]
    target = narrow_format(form.target)
    if target is not None:
        y = stored_values(y, target, 2)
    elif form.target == HIFLOAT8.name:
        y = in_bytes(y)
    return y, in_bytes(scale) if is_mx else scale


def _elements(tensor: Tensor) -> Tensor:
    return unpacked(tensor, tensor.rank) if tensor.meta.dtype == torch.int32 else tensor
