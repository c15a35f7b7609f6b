"""upsample_nearest2d with scales that are not the ratio of the sizes: ATen takes the pixel ``floor(i / scale)``.

ResizeNearestNeighborV2 has no scales and divides the sizes.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.reference.half_precision import upcast_half
from torch import Tensor

aten = torch.ops.aten


@decomposes(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    x: Tensor, output_size: Any, scales_h: float | None = None, scales_w: float | None = None
) -> Any:
    """Gather the rows and columns by index."""
    scales = scales_h, scales_w
    if _are_ratios(x.shape[2:], output_size, scales):
        return NotImplemented
    rows, columns = _source_indices(x, x.shape[2:], output_size, scales)
    return x.index_select(2, rows).index_select(3, columns)


@decomposes(aten.upsample_nearest2d_backward.default)
def upsample_nearest2d_backward(
    grad: Tensor, output_size: Any, input_size: Any, scales_h: float | None = None, scales_w: float | None = None
) -> Any:
    """Add each gradient to its source pixel, in float32 for half precision."""
    scales = scales_h, scales_w
    if _are_ratios(input_size[2:], output_size, scales):
        return NotImplemented
    rows, columns = _source_indices(grad, input_size[2:], output_size, scales)
    pixels = (rows.unsqueeze(1) * input_size[3] + columns).reshape(-1)
    wide = upcast_half(grad).flatten(2)
    zeros = wide.new_zeros((*input_size[:2], input_size[2] * input_size[3]))
    return zeros.index_add(2, pixels, wide).reshape(input_size).to(grad.dtype)


def _are_ratios(sizes: Any, output_size: Any, scales: tuple[float | None, float | None]) -> bool:
    return all(
        scale is None or scale <= 0 or (isinstance(size, int) and size * scale == output)
        for size, output, scale in zip(sizes, output_size, scales, strict=True)
    )


def _source_indices(x: Tensor, sizes: Any, output_size: Any, scales: tuple[float | None, float | None]) -> list[Tensor]:
    """Return the source index of each row and column, computed in float32 as ATen does."""
    indices = []
    for size, output, scale in zip(sizes, output_size, scales, strict=True):
        step = 1.0 / scale if scale is not None and scale > 0 else size / output
        positions = torch.arange(output, dtype=torch.float32, device=x.device)
        indices.append((positions * step).floor().long().clamp(max=size - 1))
    return indices
