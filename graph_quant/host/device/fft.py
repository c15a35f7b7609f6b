"""Fourier transforms on npu tensors, of those of the last dimension as in graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ...dispatcher import overload
from ...reference import fourier
from ...reference.fourier import BY_COUNT, NO_NORM
from . import kernels

_C2C = "aten::_fft_c2c"


def _complex() -> fourier.Complex:
    inner = kernels.functional(overload(_C2C))

    def transform(x: Tensor, forward: bool) -> Tensor:
        return inner(x, [x.dim() - 1], NO_NORM if forward else BY_COUNT, forward)  # type: ignore[no-any-return]

    return transform


def _c2c(_inner: kernels.Kernel) -> kernels.Kernel:
    transform = _complex()

    def serve(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
        return fourier.c2c(x, dim, normalization, forward, transform)

    return serve


def _r2c(inner: kernels.Kernel) -> kernels.Kernel:
    transform = _complex()

    def half(x: Tensor) -> Tensor:
        return inner(x, [x.dim() - 1], NO_NORM, True)  # type: ignore[no-any-return]

    def serve(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
        return fourier.r2c(x, dim, normalization, onesided, half, transform)

    return serve


def _c2r(inner: kernels.Kernel) -> kernels.Kernel:
    transform = _complex()

    def whole(x: Tensor, size: Any) -> Tensor:
        return inner(x, [x.dim() - 1], BY_COUNT, size)  # type: ignore[no-any-return]

    def serve(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
        return fourier.c2r(x, dim, normalization, last_dim_size, whole, transform)

    return serve


AS_IN_GRAPHS: dict[str, Callable[[kernels.Kernel], kernels.Kernel]] = {
    _C2C: _c2c,
    "aten::_fft_c2r": _c2r,
    "aten::_fft_r2c": _r2c,
}
