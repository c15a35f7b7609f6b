"""npu_dynamic_quant: symmetric dynamic quantisation, with a scale from the largest magnitude and no offset.

With v the input, multiplied by the smooth scales if present, and M the largest integer: ``y = sat(rint(v * (M /
absmax)))`` and ``scale = absmax * (1/M)``, or ``1 / (M / absmax)`` with groups and where the elements that share a
scale do not fit the device's tiles. Elements that are all zero give y = 0, scale = 0.

Ascend 950 computes ``scale = absmax * (1/M)`` and ``y = sat(round(v / scale))`` in every mode, also for float8 and
HiFloat8.
"""

from __future__ import annotations

import math

import torch
from graph_quant import chip, native
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.dequantise import elements
from graph_quant.reference.quant import dynamic
from graph_quant.reference.quant.row_quant import quantise_rows


def _parameters(
    largest: torch.Tensor, smallest: torch.Tensor, top: float, _destination: Destination
) -> tuple[torch.Tensor, torch.Tensor]:
    magnitude = torch.maximum(largest.abs(), smallest.abs())
    # torch computes ``number / tensor`` by a reciprocal and a product, which rounds twice.
    tops = torch.full_like(magnitude, top)
    return magnitude * tops.reciprocal(), tops / magnitude


def _apply(values: torch.Tensor, _scale: torch.Tensor, multiplier: torch.Tensor) -> torch.Tensor:
    # Zeros meet an infinite multiplier, and the NaN of that product is stored as 0.
    return values * multiplier


def _parameters_950(
    largest: torch.Tensor, smallest: torch.Tensor, top: float, _destination: Destination
) -> tuple[torch.Tensor]:
    magnitude = torch.maximum(largest.abs(), smallest.abs())
    return (magnitude * torch.full_like(magnitude, top).reciprocal(),)


def _divide(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return values / scale


METHOD_950 = dynamic.Method("npu_dynamic_quant", _parameters_950, _divide)

# From the tiling of the device kernel: its memory for tiles, and the bytes per element of a row.
_TILE_MEMORY = 192 * 1024 - 1024
_BYTES, _BYTES_SMOOTHED = 13, 19
_SHORTEST, _LONGEST, _LONGEST_SMOOTHED = 128, 16320, 12800

METHOD = dynamic.Method("npu_dynamic_quant", _parameters, _apply)


def dynamic_quant(
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    destination: Destination = INT8,
    mode: str = dynamic.PERTOKEN,
    dst_type_max: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with scales from the largest magnitude of the elements that share one, as npu_dynamic_quant does.

    Args:
        x: Tensor of float16 or bfloat16.
        smooth_scales: Scales that x is multiplied by first, of the last dimension or one row per group.
        group_index: The end of every group of rows, where ``smooth_scales`` has groups.
        destination: What to store: INT8 or INT4 of ``graph_quant.destination``; on Ascend 950 also E4M3, E5M2 or
            HIFLOAT8.
        mode: "pertoken", "pertensor" or "perchannel".
        dst_type_max: The largest quantised magnitude; 0 for that of the destination.

    Returns:
        ``(y, scale)``: the integers, and the float32 scale of every row, column or tensor by ``mode``.
    """
    if chip.is_950():
        y, scale = dynamic.quantise(METHOD_950, x, smooth_scales, group_index, destination, mode, dst_type_max)
        return y, scale
    spills = group_index is not None or _spills(dynamic.shared_elements(x, mode), smooth_scales is not None)
    is_of_rows = (
        mode == dynamic.PERTOKEN and group_index is None and (smooth_scales is None or smooth_scales.dim() == 1)
    )
    if is_of_rows and destination is INT8 and not dst_type_max and native.can_quantise_rows(x):
        y, scale = quantise_rows(x.reshape(math.prod(x.shape[:-1]), x.size(-1)), smooth_scales, spills)
        return y.reshape(x.shape), scale.reshape(x.shape[:-1])
    y, scale, multiplier = dynamic.quantise(METHOD, x, smooth_scales, group_index, destination, mode, dst_type_max)
    if x.numel() and spills:
        scale = multiplier.reciprocal()
    return y, scale


def _spills(length: int, smoothed: bool) -> bool:
    """Whether ``length`` elements that share a scale take a kernel of A2 and A3 that stores ``1 / (M / absmax)``.

    The kernel processes several rows at a time if their length is a multiple of 8, else one row if two tiles of it fit.
    """
    if _SHORTEST <= length <= (_LONGEST_SMOOTHED if smoothed else _LONGEST) and length % 8 == 0:
        return False
    padded = (length + 15) // 16 * 16
    return padded * (_BYTES_SMOOTHED if smoothed else _BYTES) >= _TILE_MEMORY


def dequantise(y: torch.Tensor, scale: torch.Tensor, mode: str = dynamic.PERTOKEN) -> torch.Tensor:
    """The float32 values whose quantisation ``y`` is, smooth scales still applied."""
    return elements(y) * dynamic.broadcast(scale, mode)


@kernel("DynamicQuant", flops=5, exact=True, same=("x", "smooth_scales"), packs=True, chips=A2_A3_950)
def dynamic_quant_node(
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    *,
    dst_type: int = 2,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    return dynamic_quant(x, smooth_scales, group_index, element_destination(dst_type), quant_mode, dst_type_max)
