"""Quantisation of rows by their extremes, or by scales that groups of rows share: quant.c."""

from __future__ import annotations

from struct import Struct

import torch
from torch import Tensor

from .library import IN_THREADS, KINDS, empty_strided, function, threads_for

# The cost of an element, in products.
_COST = 32


# ``struct quantisation`` of quant.c: x, smooth, y, scale; stride, rows, width; kind, inverts.
_QUANTISATION = Struct("4P3n2i")

# ``struct affine`` of quant.c: x, scale, ends, offset, smooth, scales, offsets, y; strides of x and scale, rows, width,
# groups; low, high, top; dtypes of x and scale, packs.
_AFFINE = Struct("8P5n3f3i")

_rows = function("graph_quant_rows")
_affine = function("graph_quant_affine")


def can_quantise_rows(x: Tensor) -> bool:
    """Whether ``quantise_rows`` takes such rows; fake tensors may be passed."""
    return _rows is not None and x.dtype in KINDS and x.dtype.is_floating_point and x.is_cpu


def quantise_rows(x: Tensor, smooth: Tensor | None, inverts: bool) -> tuple[Tensor, Tensor]:
    """Quantise rows (row, element) that ``can_quantise_rows`` accepts to int8; return them and the scale of each.

    ``smooth`` is one float32 for each element of a row. With ``inverts`` a scale is 1 / (127 / largest).
    """
    assert _rows is not None
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, width = x.shape
    y, scale = empty_strided((rows, width), (width, 1), torch.int8), empty_strided((rows,), (1,), torch.float32)
    arguments = _QUANTISATION.pack(
        x.data_ptr(),
        0 if smooth is None else smooth.data_ptr(),
        y.data_ptr(),
        scale.data_ptr(),
        x.stride(0),
        rows,
        width,
        KINDS[x.dtype],
        inverts,
    )
    _rows(arguments, IN_THREADS, threads_for(rows * width * _COST))
    return y, scale


def can_map_rows(x: Tensor) -> bool:
    """Whether ``scale_rows`` and ``map_rows`` take such rows; fake tensors may be passed."""
    return _affine is not None and x.dtype in KINDS and x.dtype.is_floating_point and x.is_cpu


def scale_rows(
    x: Tensor, scale: Tensor, ends: Tensor, offset: Tensor | None, bounds: tuple[int, int], packs: bool
) -> Tensor:
    """Return ``sat(rint(x * scale + offset))`` of rows (row, element), with a row of scales for each group of rows.

    ``ends`` are int64 and contiguous, the offset is one float32. With ``packs`` eight int4 are stored in an int32.
    """
    x, scale = (rows if rows.stride(1) == 1 else rows.contiguous() for rows in (x, scale))
    rows, width = x.shape
    y = _empty_rows(rows, width, packs)
    parameters = (scale, ends, offset, None, None, None)
    _run(x, parameters, y, scale.stride(0), ends.numel(), bounds, 0.0, KINDS[scale.dtype], packs)
    return y


def map_rows(
    x: Tensor, smooth: Tensor | None, bounds: tuple[int, int], top: float, packs: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise rows (row, element) by their smallest and largest elements; return them, their scales and offsets.

    ``smooth`` is one float32 for each element of a row. The largest element becomes ``top``.
    """
    x = x if x.stride(1) == 1 else x.contiguous()
    rows, width = x.shape
    y = _empty_rows(rows, width, packs)
    scales, offsets = (empty_strided((rows,), (1,), torch.float32) for _ in range(2))
    _run(x, (None, None, None, smooth, scales, offsets), y, 0, 0, bounds, top, 0, packs)
    return y, scales, offsets


def _empty_rows(rows: int, width: int, packs: bool) -> Tensor:
    if packs:
        return empty_strided((rows, width // 8), (width // 8, 1), torch.int32)
    return empty_strided((rows, width), (width, 1), torch.int8)


def _run(
    x: Tensor,
    parameters: tuple[Tensor | None, ...],
    y: Tensor,
    scale_stride: int,
    groups: int,
    bounds: tuple[int, int],
    top: float,
    scale_kind: int,
    packs: bool,
) -> None:
    assert _affine is not None
    rows, width = x.shape
    pointers = [0 if parameter is None else parameter.data_ptr() for parameter in parameters]
    sizes = (x.stride(0), scale_stride, rows, width, groups)
    arguments = _AFFINE.pack(
        x.data_ptr(), *pointers, y.data_ptr(), *sizes, *bounds, top, KINDS[x.dtype], scale_kind, packs
    )
    _affine(arguments, IN_THREADS, threads_for(rows * width * _COST))
