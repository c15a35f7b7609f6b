"""Operands of quantised grouped products on Ascend 950: bytes become their dtype by a Bitcast.

float4 get a Reshape behind it, between two Transposes where they are packed along k, as in npu_quant_matmul.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.converters.matmul.quant_matmul import elements_of, packed_scale
from graph_quant.converters.narrow import E8M0, viewed_as
from graph_quant.reference.matmul.grouped_narrow import GroupedForm
from graph_quant.reference.matmul.quant_matmul_950 import INT8
from torchair.ge._ge_graph import Tensor

Tensors = Sequence[Tensor]


def lower_operands(
    form: GroupedForm, x: Tensors, weight: Tensors, scale: Tensors | None, tokens: Tensors | None
) -> tuple[Tensors, Tensors, Tensors, Tensors]:
    """x, weight, scale and per_token_scale in their dtypes."""
    if form.x != INT8:
        x = [viewed_as(x[0], form.x, x[0].rank)]
        weight = [elements_of(weight[0], form.weight_along_k, lambda y, rank: viewed_as(y, form.weight, rank))]
    if form.is_mx and scale and tokens:
        scale, tokens = ([viewed_as(codes[0], E8M0, codes[0].rank)] for codes in (scale, tokens))
    else:
        scale = [packed_scale(tensor) for tensor in scale or ()]
    return x, weight, scale, tokens or ()
