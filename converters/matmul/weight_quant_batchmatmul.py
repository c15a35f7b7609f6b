"""npu_weight_quant_batchmatmul becomes WeightQuantBatchMatmulV2.

The kernel takes int4 packed in int32, parameters of x's dtype, and for int8 results only packed parameters: a float
quant_scale goes through TransQuantParamV2 first, as in eager mode. TorchAir passes it unpacked, which the kernel
refuses.

On Ascend 950 bytes of HiFloat8 and of scales become their dtype by a Bitcast; that of scales is before a Transpose, so
that GE merges the Transpose into the node. float32 that hold float4 are passed as they are, as int32 that hold int4.
"""

from __future__ import annotations

import torch
from graph_quant.converters.lowering import cast_to, lowers, producer, swapped_last_two
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.converters.narrow import E8M0, viewed_as
from graph_quant.converters.quant import trans_quant_param
from graph_quant.ge import TO_DESC
from graph_quant.meta.matmul.weight_quant_batchmatmul import WeightQuantPlan
from graph_quant.narrow_floats import E2M1
from graph_quant.reference.matmul.narrow_products import HIFLOAT8
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_weight_quant_batchmatmul")
def lower(
    plan: WeightQuantPlan,
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    bias: Tensor | None,
    antiquant_group_size: int,
    inner_precise: int,
) -> Tensor:
    """The GE nodes of one call."""
    if plan.narrow == HIFLOAT8:
        weight = viewed_as(weight, plan.narrow, weight.rank)
    y = ge.WeightQuantBatchMatmulV2(
        x,
        weight,
        _codes(antiquant_scale) if plan.narrow == E2M1.name else _like(antiquant_scale, x),
        antiquant_offset=None if antiquant_offset is None else _like(antiquant_offset, x),
        quant_scale=None if quant_scale is None else _packed(quant_scale, quant_offset),
        quant_offset=quant_offset,
        bias=bias,
        transpose_x=False,
        transpose_weight=False,
        antiquant_group_size=antiquant_group_size,
        inner_precise=inner_precise,
    )
    y.desc.dtype = TO_DESC[str(plan.results[0].dtype).removeprefix("torch.")]  # type: ignore[union-attr]
    return y


def _codes(scale: Tensor) -> Tensor:
    """Codes of float8_e8m0fnu in their dtype."""
    rank = 2
    source = producer(scale) if scale.node.type == "Transpose" else None
    if source is None:
        return viewed_as(scale, E8M0, rank)
    return swapped_last_two(viewed_as(source, E8M0, rank), rank)


def _like(parameters: Tensor, x: Tensor) -> Tensor:
    """Floating parameters in x's dtype."""
    is_same = parameters.meta.dtype in (x.meta.dtype, torch.int64, torch.int32)
    return parameters if is_same else cast_to(parameters, x.meta.dtype)


def _packed(scale: Tensor, offset: Tensor | None) -> Tensor:
    return packed_scale(scale) if scale.meta.dtype == torch.int64 else trans_quant_param.quant_params(scale, offset)
