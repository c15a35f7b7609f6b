"""Fourier transforms on npu tensors, composed of transforms of the last dimension as in graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ...dispatcher import overload
from ...reference import fourier
from ...reference.fourier import BY_COUNT, NO_NORM
from . import kernels

_C2C = "aten::_fft_c2c"


def _make_complex_transform() -> fourier.Complex:
    op = overload(_C2C)
    inner = kernels.functional(op)

    def transform(x: Tensor, forward: bool) -> Tensor:
        compute = op._op if x.is_cpu else inner  # a replay computes on CPU tensors
        return compute(x, [x.dim() - 1], NO_NORM if forward else BY_COUNT, forward)  # type: ignore[no-any-return]

    return transform


def _c2c(_op: OpOverload, _kernel: kernels.Kernel) -> kernels.Kernel:
    transform = _make_complex_transform()

    def wrapper(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
        return fourier.c2c(x, dim, normalization, forward, transform)

    return wrapper


def _r2c(_op: OpOverload, kernel: kernels.Kernel) -> kernels.Kernel:
    transform = _make_complex_transform()

    def onesided_transform(x: Tensor) -> Tensor:
        return kernel(x, [x.dim() - 1], NO_NORM, True)  # type: ignore[no-any-return]

    def wrapper(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
        return fourier.r2c(x, dim, normalization, onesided, onesided_transform, transform)

    return wrapper


def _c2r(_op: OpOverload, kernel: kernels.Kernel) -> kernels.Kernel:
    transform = _make_complex_transform()

    def real_transform(x: Tensor, size: Any) -> Tensor:
        return kernel(x, [x.dim() - 1], BY_COUNT, size)  # type: ignore[no-any-return]

    def wrapper(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
        return fourier.c2r(x, dim, normalization, last_dim_size, real_transform, transform)

    return wrapper


WRAPPERS = {_C2C: _c2c, "aten::_fft_c2r": _c2r, "aten::_fft_r2c": _r2c}
