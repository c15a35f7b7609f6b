"""npu_grouped_matmul_swiglu_quant and _v2: the first linear layer of experts, followed by SwiGLU and quantisation.

int8 weights: ``v = acc * x_scale * weight_scale``, x_scale first. int4 weights, as in npu_grouped_matmul: with int8 x
``v = (16 * high + low + assist) * x_scale``, with int4 x ``v = float16(acc * weight_scale) * x_scale``. The gate
``s = swish(left) * right``, with int4 x times smooth_scale, is quantised by rows: ``scale = absmax / 127`` and
``y = rint(float16(s * (1 / scale)))``; with int4 x the multiplier is ``127 / absmax`` instead of ``1 / scale``.

The device does not write rows that belong to no group; here they are zero.
"""

from __future__ import annotations

import dataclasses

import torch
from graph_quant import int4, quant_params
from graph_quant.destination import INT8
from graph_quant.reference.activation.activation_functions import CLAMPED, apply_swiglu
from graph_quant.reference.grouping import spans
from graph_quant.reference.matmul.grouped_products import Weight, split_product, sum_over_groups
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.narrow_swiglu_quant import SwigluForm, swiglu_of_narrow_products
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rounding import saturate
from torch import Tensor

Pair = tuple[Tensor, Tensor]


def _infer(op: str, x: Tensor, weight: Tensor, weight_scale: Tensor, *_: object) -> Pair:  # noqa: ARG001
    y = x.new_empty((x.size(0), weight_scale.size(-1) // 2), dtype=torch.int8)
    return y, x.new_empty((x.size(0),), dtype=torch.float32)


@opaque(_infer)
def swiglu_of_products(
    op: str,
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    group_list_type: int,
    assist: Tensor | None,
    smooth_scale: Tensor | None,
    limit: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The quantised rows and their scales. int4 is packed in int32; from GE nodes it is one int4 per element.

    A ``limit`` above 0, which only kernels of extensions have, bounds the gate's argument from above, and the other
    half from above and below.
    """
    y, scale = _infer(op, x, weight, weight_scale)
    y.zero_()
    scale.zero_()
    for span in spans(op, group_list, group_list_type, weight.size(0), x.size(0)):
        rows, tokens = x[span.as_slice], x_scale[span.as_slice].unsqueeze(-1)
        rows = int4.unpack(rows) if rows.dtype == torch.int32 else rows
        chosen = Weight(weight[span.weight], scale=weight_scale[span.weight])
        is_a4w4 = assist is None and weight_scale.dtype == torch.int64
        if assist is not None:
            values = split_product(rows, dataclasses.replace(chosen, bias=assist[span.weight])) * tokens
        elif is_a4w4:
            values = sum_over_groups(rows, chosen) * tokens
        else:
            values = int8_matmul(rows, chosen.integers).float() * tokens * weight_scale[span.weight].float()
        gate = apply_swiglu(values, True, CLAMPED if limit > 0 else 0, limit, 1.0, 0.0)
        if smooth_scale is not None:
            gate = gate * smooth_scale[span.weight]
        y[span.as_slice], scale[span.as_slice] = _quantised(gate, is_a4w4)
    return y, scale


def _quantised(values: Tensor, is_a4w4: bool) -> Pair:
    largest = values.abs().amax(-1, keepdim=True)
    scale = largest / 127.0
    # As a tensor: torch computes ``number / tensor`` by a reciprocal and a product, which rounds twice.
    multiplier = torch.full_like(largest, 127.0) / largest if is_a4w4 else torch.ones_like(scale) / scale
    return saturate((values * multiplier).half().float(), INT8), scale.squeeze(-1)


def grouped_matmul_swiglu_quant(
    x: Tensor, weight: Tensor, group_list: Tensor, weight_scale: Tensor, x_scale: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The quantised rows, their scales, and an unused offset."""
    name = "npu_grouped_matmul_swiglu_quant"
    scales = quant_params.signed(weight_scale)
    y, scale = swiglu_of_products(name, x, weight, scales, x_scale, group_list, 0, bias, None)
    return y, scale, torch.zeros((), dtype=torch.float32)


def grouped_matmul_swiglu_quant_v2(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    smooth_scale: Tensor | None,
    weight_assist_matrix: list[Tensor] | None,
    group_list_type: int | None,
    form: SwigluForm | None = None,
) -> Pair:
    """The quantised rows and their scales; ``form`` is that of a call on Ascend 950."""
    if form is not None:
        operands = x, weight[0], weight_scale[0], x_scale, group_list
        return swiglu_of_narrow_products(form, *operands, group_list_type or 0)
    name = "npu_grouped_matmul_swiglu_quant_v2"
    assist = weight_assist_matrix[0] if weight_assist_matrix else None
    tensors = x, weight[0], quant_params.signed(weight_scale[0]), x_scale, group_list
    return swiglu_of_products(name, *tensors, group_list_type or 0, assist, _row(smooth_scale))


def _row(smooth_scale: Tensor | None) -> Tensor | None:
    """Smooth scales as (E, columns), or (E, 1) for one scale per expert."""
    return smooth_scale.unsqueeze(-1) if smooth_scale is not None and smooth_scale.dim() == 1 else smooth_scale
