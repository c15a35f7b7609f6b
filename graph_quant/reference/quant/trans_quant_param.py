"""npu_trans_quant_param: a float32 scale and offset packed into the int64 parameters that a matmul kernel reads.

Either may have one element; the result is as long as the longer one. Without an offset the result has the scale's
shape.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.quant_params import TRUNCATE, decode, encode

__all__ = ["dequantise", "trans_quant_param"]


def trans_quant_param(scale: torch.Tensor, offset: torch.Tensor | None = None, mode: int = TRUNCATE) -> torch.Tensor:
    """Pack scales and offsets into the int64 that npu_quant_matmul reads.

    Args:
        scale: float32 scales.
        offset: float32 offsets, or None.
        mode: 0 truncates the scale to the bits that the device keeps, 1 rounds it.

    Returns:
        int64 parameters, one for each scale.
    """
    return encode(scale, offset, mode)


def dequantise(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The float32 scale and the int32 offset of packed parameters."""
    return decode(params)


@kernel("TransQuantParamV2", flops=2, exact=True, chips=A2_A3_950)
def trans_quant_param_node(
    scale: torch.Tensor, offset: torch.Tensor | None = None, *, round_mode: int = 0
) -> torch.Tensor:
    return trans_quant_param(scale, offset, round_mode).view(torch.uint64)
