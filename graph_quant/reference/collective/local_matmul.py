"""The matmuls that fused communication operators compute on each rank."""

from __future__ import annotations

import torch
from graph_quant import quant_params
from graph_quant.destination import BFLOAT16, FLOAT16
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.quant_matmul import quant_matmul
from torch import Tensor


def float_matmul(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    """``x1 @ x2 + bias`` accumulated in float32 and rounded once; a device adds in the order of its tiling."""
    return multiply(x1, x2, bias, x1.dtype)


def dequant_matmul(
    x1: Tensor, x2: Tensor, scale: Tensor, tokens: Tensor | None, bias: Tensor | None, output: torch.dtype
) -> Tensor:
    """Exact int32 product and bias, dequantised as npu_quant_matmul does."""
    scale = scale.view(torch.int64) if scale.dtype == torch.uint64 else scale
    rows = x1.reshape(-1, x1.size(-1))
    destination = BFLOAT16 if output == torch.bfloat16 else FLOAT16
    product = quant_matmul(rows, x2, scale.reshape(-1), pertoken_scale=tokens, bias=bias, output=destination)
    return product.reshape(*x1.shape[:-1], x2.size(1))


def float_or_scaled_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    output: torch.dtype,
) -> Tensor:
    """``float_matmul`` without ``x2_scale``, else ``scaled_matmul``."""
    if x2_scale is None:
        return float_matmul(x1, x2, bias)
    return scaled_matmul(x1, x2, x1_scale, x2_scale, bias, output)


def scaled_matmul(
    x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor, bias: Tensor | None, output: torch.dtype
) -> Tensor:
    """Exact int32 product times ``x2_scale``, which may be packed, times ``x1_scale``, plus the bias; rounded once.

    The device's order of the two multiplications is not documented; it changes a result by one unit at most.
    """
    columns = quant_params.decode(x2_scale.reshape(-1))[0] if x2_scale.dtype == torch.int64 else x2_scale.reshape(-1)
    values = int8_matmul(x1, x2).float() * columns
    values = values if x1_scale is None else values * x1_scale
    return (values if bias is None else values + bias.float()).to(output)
