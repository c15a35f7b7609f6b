"""Quantisation of rows to int8 by their largest magnitude: quant.c."""

from __future__ import annotations

from struct import Struct

import torch
from torch import Tensor

from .library import IN_THREADS, KINDS, empty_strided, function, threads_for

# The cost of an element, in products.
_COST = 32


# ``struct quantisation`` of quant.c: x, smooth, y, scale; stride, rows, width; kind, inverts.
_QUANTISATION = Struct("4P3n2i")

_rows = function("graph_quant_rows")


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
