"""Quantisation of the attention result: per tensor, or per head and channel."""

from __future__ import annotations

import torch
from torch import Tensor


def quantise_result(x: Tensor, scale: Tensor | None, offset: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Float32 ``x`` (batch, head, token, channel) as ``dtype``, or as int8 where there is a scale."""
    if scale is None:
        return x.to(dtype)

    def fitted(parameter: Tensor) -> Tensor:
        numbers = parameter.float()
        return numbers.reshape(1) if numbers.numel() == 1 else numbers.reshape(1, x.size(1), 1, x.size(3))

    scaled = x * fitted(scale)
    if offset is not None:
        scaled = scaled + fitted(offset)
    return scaled.round().clamp(-128, 127).to(torch.int8)
