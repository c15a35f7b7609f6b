"""npu_quantize becomes AscendQuantV2, which multiplies, or Quantize, which divides.

AscendQuantV2 takes its inputs in one dtype, and float32 holds each of them exactly. Quantize broadcasts its
parameters from the right, so that they need reshaping for any axis but the last, and takes bfloat16 ones
only beside a bfloat16 input.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import as_float, lowers, stored
from graph_quant.meta.quant.quantize import QuantizePlan
from graph_quant.meta.rules import statically_known_true
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

HALVES = (torch.float16, torch.bfloat16)
DIVIDING_NAMES = {
    "int8": "torch.qint8",
    "uint8": "torch.quint8",
    "int32": "torch.qint32",
    "float8_e4m3fn": "torch.float8_e4m3fn",
    "float8_e5m2": "torch.float8_e5m2",
    "hifloat8": "torch.hifloat8",
}


@lowers("npu_quantize")
def lower(plan: QuantizePlan, x: Tensor, scales: Tensor, zero_points: Tensor | None) -> Tensor:
    """The GE nodes of one call."""
    y = _divide(x, scales, zero_points, plan) if plan.divide else _multiply(x, scales, zero_points, plan)
    return stored(y, plan.destination, leading=[0] * (x.rank - 1))


def _multiply(x: Tensor, scales: Tensor, zero_points: Tensor | None, plan: QuantizePlan) -> Tensor:
    if x.meta.dtype != scales.meta.dtype:
        x, scales, zero_points = (_widened(parameter, HALVES) for parameter in (x, scales, zero_points))
    return ge.AscendQuantV2(x, scales, zero_points, dst_type=plan.destination.ge_attr, axis=plan.along)


def _divide(x: Tensor, scales: Tensor, zero_points: Tensor | None, plan: QuantizePlan) -> Tensor:
    inputs = [parameter for parameter in (x, scales, zero_points) if parameter is not None]
    mixed = any(parameter.meta.dtype != torch.bfloat16 for parameter in inputs)
    parameters = [
        _along_axis(_widened(parameter, HALVES) if mixed else parameter, parameter, x.rank, plan.along)
        for parameter in (scales, zero_points)
    ]
    name = DIVIDING_NAMES[plan.destination.name]
    return ge.Quantize(x, *parameters, dtype=name, axis=plan.along + x.rank)


def _widened(tensor: Tensor | None, narrow: tuple[torch.dtype, ...]) -> Tensor | None:
    """``tensor`` in float32 if its dtype is one of ``narrow``."""
    return as_float(tensor) if tensor is not None and tensor.meta.dtype in narrow else tensor


def _along_axis(parameter: Tensor | None, source: Any, rank: int, axis: int) -> Tensor | None:
    """``parameter`` as it broadcasts along ``axis``; its size is read from the ``source`` it was made of."""
    if parameter is None or axis == -1 or statically_known_true(source.meta.size(0) == 1):
        return parameter
    column = ge.Unsqueeze(parameter, axes=[dim for dim in range(rank) if dim != axis + rank])
    column.desc.dtype = parameter.desc.dtype
    return column
