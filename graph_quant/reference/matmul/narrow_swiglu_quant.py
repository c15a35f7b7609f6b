"""npu_grouped_matmul_swiglu_quant_v2 on Ascend 950: the rows of experts, multiplied, gated and quantised again.

With v = ``(x * x_scale) @ (weight * weight_scale)`` for MX, else ``x @ weight * weight_scale * x_scale``, the gate is
``swish(left) * right`` of the halves of v, in float32 with a rounding after each operation. For MX it is rounded to
bfloat16 and quantised in blocks of 32 by scale algorithm 0, which multiplies tiny blocks by 2**127. Else it is rounded
to ``between``, and a row becomes ``gate / scale`` with ``scale = absmax * (1 / largest)``; a row of zeros is NaN, in
int8 zero.

The device does not write rows that belong to no group; here they are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import HIFLOAT8, INT8
from graph_quant.narrow_floats import FORMATS, NarrowFloat, encode_hif8
from graph_quant.reference.activation.activation_functions import apply_swiglu
from graph_quant.reference.grouping import spans
from graph_quant.reference.matmul.grouped_narrow import GroupedForm
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.narrow_products import carried, multiply_mx, multiply_narrow
from graph_quant.reference.matmul.quant_matmul_950 import INT8 as INT8_NAME
from graph_quant.reference.opaque import opaque
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from graph_quant.reference.rounding import saturate
from torch import Tensor

_OP = "npu_grouped_matmul_swiglu_quant_v2"
_PAIR = 64
_DESTINATIONS = {destination.name: destination for destination in (INT8, HIFLOAT8)}


@dataclass(frozen=True)
class SwigluForm:
    """The ``operands``, GE's name of the dtype of y, and the dtype ``between`` gate and quantisation."""

    operands: GroupedForm
    target: str
    between: torch.dtype


def swiglu_of_narrow_products(
    form: SwigluForm,
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    list_type: int,
) -> tuple[Tensor, Tensor]:
    """The quantised rows and their scales, of operands and results as torch stores them."""
    operands = form.operands
    if operands.x != INT8_NAME:
        x = carried(x, operands.x)
        weight = carried(weight, operands.weight, is_packed_along_rows=operands.weight_along_k)
    if operands.is_mx:
        weight_scale, x_scale = weight_scale.view(torch.uint8), x_scale.view(torch.uint8)
    y, scale = narrow_swiglu_quant(x, weight, weight_scale, x_scale, group_list, list_type, form.target, form.between)
    target = narrow_format(form.target)
    return (y if target is None else store_values(y, target)), scale


def narrow_format(name: str) -> NarrowFloat | None:
    """The format of a dtype by GE's name, or None for int8 and HiFloat8."""
    return next((target for target in FORMATS if target.name == name), None)


def _infer(
    x: Tensor,
    weight: Tensor,
    _weight_scale: Tensor,
    x_scale: Tensor,
    _group_list: Tensor,
    _list_type: int,
    target: str,
    _between: torch.dtype,
) -> tuple[Tensor, Tensor]:
    half = weight.size(-1) // 2
    narrow = narrow_format(target)
    dtype = _DESTINATIONS[target].storage if narrow is None else (narrow.dtype or torch.uint8)
    y = x.new_empty((x.size(0), half), dtype=dtype)
    if x_scale.dtype == torch.uint8:
        return y, x.new_empty((x.size(0), (half + _PAIR - 1) // _PAIR, 2), dtype=torch.uint8)
    return y, x.new_empty((x.size(0),), dtype=torch.float32)


@opaque(_infer)
def narrow_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    list_type: int,
    target: str,
    between: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The same of operands that are carried as in a graph; float4 results are one code to a uint8."""
    y, scale = _infer(x, weight, weight_scale, x_scale, group_list, list_type, target, between)
    y.view(torch.uint8).zero_()
    scale.zero_()
    narrow = narrow_format(target)
    for span in spans(_OP, group_list, list_type, weight.size(0), x.size(0)):
        rows, parameters = x[span.as_slice], weight_scale[span.weight]
        if x_scale.dtype == torch.uint8:
            values = multiply_mx(rows, weight[span.weight], x_scale[span.as_slice], parameters)
        else:
            product = int8_matmul(rows, weight[span.weight]) if x.dtype == torch.int8 else None
            values = multiply_narrow(rows, weight[span.weight]) if product is None else product.float()
            values = values * parameters.float() * x_scale[span.as_slice].unsqueeze(-1)
        gate = apply_swiglu(values, True, 0, 0.0, 1.0, 0.0)
        if x_scale.dtype == torch.uint8:
            assert narrow is not None
            codes, shared = quantise_blocks(gate.bfloat16(), -1, MxRule(narrow, keeps_tiny=True))
            y[span.as_slice], scale[span.as_slice] = codes, store_scales(shared, -1)
        else:
            y[span.as_slice], scale[span.as_slice] = _quantise_rows(gate.to(between).float(), target)
    return y, scale


def _quantise_rows(gate: Tensor, target: str) -> tuple[Tensor, Tensor]:
    narrow = narrow_format(target)
    largest = float(_DESTINATIONS[target].high) if narrow is None else narrow.largest
    scale = gate.abs().amax(-1, keepdim=True) * torch.full_like(gate[:, :1], 1.0 / largest)
    values = gate / scale
    if narrow is not None and narrow.dtype is not None:
        # Without saturation NaN stays NaN; a quotient is never above the largest value after rounding.
        bounded = torch.where(values == values, values.clamp(-narrow.largest, narrow.largest), torch.nan)
        return bounded.to(narrow.dtype), scale.squeeze(-1)
    if target == HIFLOAT8.name:
        return encode_hif8(values), scale.squeeze(-1)
    return saturate(values, INT8), scale.squeeze(-1)
