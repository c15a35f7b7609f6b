"""npu_dynamic_quant_asymmetric: dynamic quantisation with scale and offset from the smallest and the largest element.

With v the input, multiplied by the smooth scales if present, and an integer range from low to top:
``scale = max((max(v) - min(v)) / (top - low), 1e-12)``, ``offset = top - max(v)/scale``, not rounded, and
``y = sat(rint(v * (1/scale) + offset))``. A constant row therefore has a finite scale; a row of zeros gives y = top.

Ascend 950 computes ``scale = (max(v) - min(v)) * (1 / span)`` with a span of 2 * top for narrow floats,
``offset = top - max(v)/scale`` and ``y = sat(round(v / scale + offset))``. A constant row has scale 0, an infinite or
NaN offset, and y by the conversion of such numbers: bounds and 0.
"""

from __future__ import annotations

import math

import torch
from graph_quant import chip
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, NARROW, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.dequantise import elements
from graph_quant.reference.quant import dynamic
from graph_quant.reference.quant.dynamic_quant import dynamic_quant
from graph_quant.reference.quant.row_quant import can_map_rows, map_rows

SMALLEST_SCALE = 1e-12


def _parameters(
    largest: torch.Tensor, smallest: torch.Tensor, top: float, destination: Destination
) -> tuple[torch.Tensor, torch.Tensor]:
    scale = ((largest - smallest) / (top - destination.low)).clamp_min(SMALLEST_SCALE)
    return scale, torch.rsub(largest / scale, top)


def _apply(values: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return values * scale.reciprocal() + offset


METHOD = dynamic.Method("npu_dynamic_quant_asymmetric", _parameters, _apply)


def _parameters_950(
    largest: torch.Tensor, smallest: torch.Tensor, top: float, destination: Destination
) -> tuple[torch.Tensor, torch.Tensor]:
    span = 2 * top if destination in NARROW else top - destination.low
    scale = (largest - smallest) * torch.full_like(largest, span).reciprocal()
    return scale, torch.rsub(largest / scale, top)


def _divide(values: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return values / scale + offset


METHOD_950 = dynamic.Method("npu_dynamic_quant_asymmetric", _parameters_950, _divide)


def dynamic_quant_asymmetric(
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    destination: Destination = INT8,
    mode: str = dynamic.PERTOKEN,
    dst_type_max: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Quantise as npu_dynamic_quant_asymmetric does: scales and offsets from the extremes of what shares them.

    Args:
        x: Tensor of float16 or bfloat16.
        smooth_scales: Scales that x is multiplied by first, of the last dimension or one row per group.
        group_index: The end of every group of rows, where ``smooth_scales`` has groups.
        destination: What to store: INT8 or INT4 of ``graph_quant.destination``.
        mode: "pertoken", "pertensor" or "perchannel".
        dst_type_max: The largest quantised magnitude; 0 for that of the destination.

    Returns:
        ``(y, scale, offset)``: the integers, and the float32 scale and offset of every row, column or tensor.
    """
    if chip.is_950():
        y, scale, offset = dynamic.quantise(METHOD_950, x, smooth_scales, group_index, destination, mode, dst_type_max)
        return y, scale, offset
    is_of_rows = (
        mode == dynamic.PERTOKEN and group_index is None and (smooth_scales is None or smooth_scales.dim() == 1)
    )
    if is_of_rows and can_map_rows(x, destination):
        rows = x.reshape(math.prod(x.shape[:-1]), x.size(-1))
        y, scale, offset = map_rows(rows, smooth_scales, destination, dst_type_max or float(destination.high))
        return y.reshape(destination.stored_shape(x.shape)), scale.reshape(x.shape[:-1]), offset.reshape(x.shape[:-1])
    y, scale, offset = dynamic.quantise(METHOD, x, smooth_scales, group_index, destination, mode, dst_type_max)
    return y, scale, offset


def dequantise(
    y: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, mode: str = dynamic.PERTOKEN
) -> torch.Tensor:
    """The float32 values whose quantisation ``y`` is, smooth scales still applied."""
    return (elements(y) - dynamic.broadcast(offset, mode)) * dynamic.broadcast(scale, mode)


@kernel("DynamicQuantV2", flops=7, exact=True, same=("x", "smooth_scales"), packs=True, chips=A2_A3_950)
def dynamic_quant_v2_node(
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    *,
    dst_type: int = 2,
    is_symmetrical: bool = False,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the node. The kernel of A2 and A3 ignores ``is_symmetrical``; that of Ascend 950 does not."""
    if is_symmetrical and chip.is_950():
        destination = element_destination(dst_type)
        y, scale = dynamic_quant(x, smooth_scales, group_index, destination, quant_mode, dst_type_max)
        return y, scale, torch.zeros_like(scale)
    return dynamic_quant_asymmetric(
        x, smooth_scales, group_index, element_destination(dst_type), quant_mode, dst_type_max
    )
