"""Fourier transforms become RFFT, IRFFT, FFT and IFFT, which transform the last dimension, in complex64.

The rest is arithmetic around them: other dimensions, norms and the half that a real signal repeats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_NO_NORM, _BY_ROOT, _BY_COUNT = 0, 1, 2


def _scaled(x: torch.Tensor, count: int, norm: int) -> torch.Tensor:
    if norm == _NO_NORM:
        return x
    factor = 1.0 / (math.sqrt(count) if norm == _BY_ROOT else count)
    if not x.is_complex():
        return x * factor
    return torch.complex(x.real * factor, x.imag * factor)


def _is_last(x: torch.Tensor, dim: Sequence[int]) -> bool:
    return len(dim) == 1 and dim[0] % x.dim() == x.dim() - 1


def _count(x: torch.Tensor, dim: Sequence[int]) -> int:
    return math.prod(x.size(axis) for axis in dim)


@decomposes(aten._fft_c2c.default)
def c2c(x: torch.Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """One dimension after the other, each as the last."""
    if _is_last(x, dim) and normalization == _NO_NORM:
        return NotImplemented
    count = _count(x, dim)
    for axis in dim:
        x = aten._fft_c2c.default(x.movedim(axis, -1), [x.dim() - 1], _NO_NORM, forward).movedim(-1, axis)
    return _scaled(x, count, normalization)


@decomposes(aten._fft_r2c.default)
def r2c(x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """The last of the dimensions from real numbers, the others from complex ones."""
    if _is_last(x, dim) and normalization == _NO_NORM and onesided:
        return NotImplemented
    count, (*others, last) = _count(x, dim), dim
    if onesided:
        found = aten._fft_r2c.default(x.movedim(last, -1), [x.dim() - 1], _NO_NORM, True).movedim(-1, last)
    else:
        found = aten._fft_c2c.default(torch.complex(x, torch.zeros_like(x)), [last], _NO_NORM, True)
    if others:
        found = aten._fft_c2c.default(found, others, _NO_NORM, True)
    return _scaled(found, count, normalization)


@decomposes(aten._fft_c2r.default)
def c2r(x: torch.Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """The others of the dimensions first; the node divides by the length of the last, and ATen by what is asked."""
    if _is_last(x, dim) and normalization == _BY_COUNT:
        return NotImplemented
    *others, last = dim
    count = math.prod(x.size(axis) for axis in others) * last_dim_size
    if others:
        x = aten._fft_c2c.default(x, others, _NO_NORM, False)
    found = aten._fft_c2r.default(x.movedim(last, -1), [x.dim() - 1], _BY_COUNT, last_dim_size).movedim(-1, last)
    return _scaled(found * last_dim_size, count, normalization)


@converts(aten._fft_c2c.default)
def lower_c2c(x: Tensor, dim: Any, normalization: int, forward: bool, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """FFT; the inverse, which divides by the length, multiplied by it."""
    if forward:
        return ge.FFT(x)
    length = ge.Cast(ge.Gather(ge.Shape(x), x.rank - 1), dst_type=DataType.DT_COMPLEX64)
    return ge.Mul(ge.IFFT(x), length)


@converts(aten._fft_r2c.default)
def lower_r2c(x: Tensor, dim: Any, normalization: int, onesided: bool, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """RFFT of the whole length."""
    return ge.RFFT(x, ge.Gather(ge.Shape(x), [x.rank - 1]))


@converts(aten._fft_c2r.default)
def lower_c2r(x: Tensor, dim: Any, normalization: int, last_dim_size: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """IRFFT."""
    length = ge.Reshape(in_type(DataType.DT_INT32, last_dim_size), [1])
    return ge.IRFFT(x, length)
