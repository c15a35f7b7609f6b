"""The products that communicating operators compute on each rank, in one precision each."""

from __future__ import annotations

import torch
from graph_quant import quant_params
from graph_quant.destination import BFLOAT16, FLOAT16
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.quant_matmul import quant_matmul
from torch import Tensor


def float_matmul(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    """Summed in float32, the bias too, and rounded once; how the device cuts k decides the order of the sum."""
    values = torch.matmul(x1.float(), x2.float())
    return (values if bias is None else values + bias.float()).to(x1.dtype)


def dequant_matmul(
    x1: Tensor, x2: Tensor, scale: Tensor, tokens: Tensor | None, bias: Tensor | None, output: torch.dtype
) -> Tensor:
    """Exact in int32, the bias too, then rescaled as npu_quant_matmul rescales."""
    scale = scale.view(torch.int64) if scale.dtype == torch.uint64 else scale
    rows = x1.reshape(-1, x1.size(-1))
    destination = BFLOAT16 if output == torch.bfloat16 else FLOAT16
    product = quant_matmul(rows, x2, scale.reshape(-1), pertoken_scale=tokens, bias=bias, output=destination)
    return product.reshape(*x1.shape[:-1], x2.size(1))


def scaled_matmul(
    x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor, bias: Tensor | None, output: torch.dtype
) -> Tensor:
    """Exact in int32, times the scale of its column, a packed one too, times that of its row, and a bias; rounded once.

    In which order the device multiplies by the two scales is not documented; it moves a result by a unit at most.
    """
    columns = quant_params.decode(x2_scale.reshape(-1))[0] if x2_scale.dtype == torch.int64 else x2_scale.reshape(-1)
    values = int8_matmul(x1, x2).float() * columns
    values = values if x1_scale is None else values * x1_scale
    return (values if bias is None else values + bias.float()).to(output)
