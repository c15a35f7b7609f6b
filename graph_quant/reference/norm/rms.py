"""Functions that the RMS norms share.

Sums are float32. A device adds in the order of its tiling: two orders differ by at most n/2 units in the last place of
the sum of n squares, and by half of that in its root.
"""

from __future__ import annotations

import math

from torch import Tensor

# Vector cores of Ascend910B3, the chip that the host NPU reports.
_VECTOR_CORES = 40


def reciprocal_rms(x: Tensor, normalised: int, epsilon: float) -> Tensor:
    """``1 / sqrt(mean(x**2) + epsilon)`` of float32 ``x`` over its last ``normalised`` dimensions, with keepdim."""
    # rsqrt rounds the root and its reciprocal; torch's sqrt uses a library that is sometimes off by one unit.
    return _mean_square(x, normalised, epsilon).rsqrt()


def divide_by_rms(x: Tensor, epsilon: float) -> Tensor:
    """Float32 ``x`` divided by the rounded ``sqrt(mean(x**2) + epsilon)`` of its last dimension."""
    return x / _mean_square(x, 1, epsilon).double().sqrt().float()


def _mean_square(x: Tensor, normalised: int, epsilon: float) -> Tensor:
    axes = tuple(range(-normalised, 0))
    share = 1.0 / math.prod(x.shape[-normalised:]) if x.numel() else 0.0
    # Contiguous, because torch adds in memory order and strides may differ between graph and eager execution.
    squares = (x * x).contiguous().sum(axes, keepdim=True)
    return squares * share + epsilon


def normalise(x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> Tensor:
    """``x * rstd * gamma + beta`` of float32 ``x`` over the dimensions of gamma, with a rounding after each step."""
    normed = x * reciprocal_rms(x, gamma.dim(), epsilon) * gamma.float()
    return normed if beta is None else normed + beta.float()


def has_core_per_row(x: Tensor, normalised: int) -> bool:
    """Whether every row of ``x`` has a vector core of its own: kernels for few rows round after other operations."""
    return bool(math.prod(x.shape[: x.dim() - normalised]) <= _VECTOR_CORES)


def scale_with_two_roundings(x: Tensor, rstd: Tensor, gamma: Tensor) -> Tensor:
    """``x * rstd * gamma`` in gamma's dtype, rounded after each product."""
    return (x * rstd).to(gamma.dtype) * gamma
