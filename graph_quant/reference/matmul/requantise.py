"""Requantisation of an int32 accumulator to int8 by packed parameters."""

from __future__ import annotations

import torch
from graph_quant import quant_params
from graph_quant.destination import INT8, Destination
from graph_quant.reference.rounding import saturate
from torch import Tensor

_NINE_BITS = Destination("int9", torch.int16, (), low=-256, high=255)


def requantise(accumulator: Tensor, params: Tensor) -> Tensor:
    """``accumulator`` as int8; saturated to nine bits before the offset of ``params`` is added, to eight after."""
    scale, offset = quant_params.decode(params)
    return (saturate(accumulator.float() * scale, _NINE_BITS) + offset).clamp(INT8.low, INT8.high).to(torch.int8)
