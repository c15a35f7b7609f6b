"""What the norms by root mean square share.

Sums are taken in float32. In which order a device adds is its tiling's business: two orders differ by at most n/2
units in the last place of the sum of n squares, half of which reaches its root.
"""

from __future__ import annotations

import math

from torch import Tensor

# Of Ascend910B3, the chip that the host NPU answers for.
_VECTOR_CORES = 40


def reciprocal_rms(x: Tensor, normalised: int, epsilon: float) -> Tensor:
    """``1 / sqrt(mean(x**2) + epsilon)`` of float32 ``x`` over its last ``normalised`` dimensions, which stay as 1."""
    # rsqrt rounds the root and its reciprocal; torch's sqrt goes through a library that is off by a unit now and then.
    return _mean_square(x, normalised, epsilon).rsqrt()


def divide_by_rms(x: Tensor, epsilon: float) -> Tensor:
    """Float32 ``x`` divided by ``sqrt(mean(x**2) + epsilon)`` of its last dimension, which is rounded first."""
    return x / _mean_square(x, 1, epsilon).double().sqrt().float()


def _mean_square(x: Tensor, normalised: int, epsilon: float) -> Tensor:
    axes = tuple(range(-normalised, 0))
    share = 1.0 / math.prod(x.shape[-normalised:]) if x.numel() else 0.0
    # Contiguous, for torch adds in the order of memory, and a graph may see another one than eager execution.
    squares = (x * x).contiguous().sum(axes, keepdim=True)
    return squares * share + epsilon


def has_core_per_row(x: Tensor, normalised: int) -> bool:
    """Whether every row of ``x`` has a vector core for itself: kernels for few rows round at other places."""
    return bool(math.prod(x.shape[: x.dim() - normalised]) <= _VECTOR_CORES)


def scale_with_two_roundings(x: Tensor, rstd: Tensor, gamma: Tensor) -> Tensor:
    """``x * rstd * gamma`` in gamma's dtype, rounded after each product."""
    return (x * rstd).to(gamma.dtype) * gamma
