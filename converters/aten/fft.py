"""Fourier transforms become RFFT, IRFFT, FFT and IFFT, which transform the last dimension, in complex64.

The rest is arithmetic around them: other dimensions, norms and the half that a real signal repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from graph_quant.reference import fourier
from graph_quant.reference.fourier import BY_COUNT, NO_NORM, is_single_node
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


def _complex(x: torch.Tensor, forward: bool) -> torch.Tensor:
    return aten._fft_c2c.default(x, [x.dim() - 1], NO_NORM if forward else BY_COUNT, forward)  # type: ignore[no-any-return]


@decomposes(aten._fft_c2c.default)
def c2c(x: torch.Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """Transform one dimension after the other, each moved to the end."""
    if is_single_node(x, dim, normalization, NO_NORM if forward else BY_COUNT):
        return NotImplemented
    return fourier.c2c(x, dim, normalization, forward, _complex)


@decomposes(aten._fft_r2c.default)
def r2c(x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """Transform the last dimension as real, the others as complex."""
    if onesided and is_single_node(x, dim, normalization, NO_NORM):
        return NotImplemented

    def half(x: torch.Tensor) -> torch.Tensor:
        return aten._fft_r2c.default(x, [x.dim() - 1], NO_NORM, True)  # type: ignore[no-any-return]

    return fourier.r2c(x, dim, normalization, onesided, half, _complex)


@decomposes(aten._fft_c2r.default)
def c2r(x: torch.Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """Transform the last dimension to real, after the others."""
    if is_single_node(x, dim, normalization, BY_COUNT):
        return NotImplemented

    def whole(x: torch.Tensor, size: int) -> torch.Tensor:
        return aten._fft_c2r.default(x, [x.dim() - 1], BY_COUNT, size)  # type: ignore[no-any-return]

    return fourier.c2r(x, dim, normalization, last_dim_size, whole, _complex)


@converts(aten._fft_c2c.default)
def lower_c2c(x: Tensor, dim: Any, normalization: int, forward: bool, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """FFT, or IFFT, which divides by the length."""
    return ge.FFT(x) if forward else ge.IFFT(x)


@converts(aten._fft_r2c.default)
def lower_r2c(x: Tensor, dim: Any, normalization: int, onesided: bool, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """RFFT of the whole length."""
    return ge.RFFT(x, ge.Gather(ge.Shape(x), [x.rank - 1]))


@converts(aten._fft_c2r.default)
def lower_c2r(x: Tensor, dim: Any, normalization: int, last_dim_size: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """IRFFT, which divides by the length."""
    length = ge.Reshape(in_type(DataType.DT_INT32, last_dim_size), [1])
    return ge.IRFFT(x, length)
