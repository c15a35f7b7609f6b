"""npu_dequant_bias: dequantisation of int32 accumulators, ``x * weight_scale * activation_scale + bias``.

An int32 bias is added to x first, as an integer. Every step is float32, each rounded; the last rounds half to even to
the result's dtype.
"""

from __future__ import annotations

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, Destination
from graph_quant.ge import kernel
from torch import Tensor


def dequant_bias(
    x: Tensor, weight_scale: Tensor, activation_scale: Tensor | None, bias: Tensor | None, output: Destination
) -> Tensor:
    """Rows of accumulators, dequantised."""
    if bias is not None and bias.dtype == torch.int32:
        x, bias = x + bias, None
    values = x.float() * weight_scale.float()
    if activation_scale is not None:
        values = values * activation_scale.unsqueeze(-1)
    if bias is not None:
        values = values + bias.float()
    return values.to(output.storage).contiguous()


_OUTPUTS = {output.ge_attr: output for output in (FLOAT16, BFLOAT16)}


@kernel("DequantBias", flops=3, exact=True)
def dequant_bias_node(
    x: Tensor,
    weight_scale: Tensor,
    activate_scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    output_dtype: int,
) -> Tensor:
    if output_dtype not in _OUTPUTS:
        raise TypeError(f"DequantBias: output_dtype must be 1 (float16) or 27 (bfloat16), got {output_dtype}")
    return dequant_bias(x, weight_scale, activate_scale, bias, _OUTPUTS[output_dtype])
