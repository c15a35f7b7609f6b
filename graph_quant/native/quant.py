"""Rows quantised to int8 by their largest magnitude: quant.c."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from .library import IN_THREADS, KINDS, function, threads_for

# What an element takes, in products.
_WORTH = 32


class _Quantisation(ctypes.Structure):
    """``struct quantisation`` of quant.c."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("smooth", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("stride", ctypes.c_ssize_t),
        ("rows", ctypes.c_ssize_t),
        ("width", ctypes.c_ssize_t),
        ("kind", ctypes.c_int32),
        ("inverts", ctypes.c_int32),
    )


_rows = function("graph_quant_rows")


def quantises(x: Tensor) -> bool:
    """Whether ``quantised_rows`` takes such rows; they may be known by dtype and device alone."""
    return _rows is not None and x.dtype in KINDS and x.dtype.is_floating_point and x.device.type == "cpu"


def quantised_rows(x: Tensor, smooth: Tensor | None, inverts: bool) -> tuple[Tensor, Tensor]:
    """Rows (row, element) that ``quantises`` says yes to, in int8, and the scale of each.

    ``smooth`` is one float32 for each element of a row. With ``inverts`` a scale is 1 / (127 / largest).
    """
    assert _rows is not None
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, width = x.shape
    y, scale = torch.empty(rows, width, dtype=torch.int8), torch.empty(rows, dtype=torch.float32)
    given = _Quantisation(
        x.data_ptr(),
        None if smooth is None else smooth.data_ptr(),
        y.data_ptr(),
        scale.data_ptr(),
        x.stride(0),
        rows,
        width,
        KINDS[x.dtype],
        inverts,
    )
    _rows(ctypes.byref(given), IN_THREADS, threads_for(rows * width * _WORTH))
    return y, scale
