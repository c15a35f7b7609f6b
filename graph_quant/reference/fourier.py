"""Fourier transforms over any dimensions and norms, decomposed into those that GE has nodes for.

GE's nodes transform the last dimension, unscaled forwards and divided by its length backwards. The functions take
tensors of any device, also traced ones, and the function that transforms the last dimension. Eager calls and graphs
share the decomposition, so that both round alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

NO_NORM, BY_ROOT, BY_COUNT = 0, 1, 2
# A complex transform of the last dimension; the second argument is whether it is the forward one.
Complex = Callable[[Tensor, bool], Tensor]


def _scaled(x: Tensor, alpha: Any) -> Tensor:
    if isinstance(alpha, int) and alpha == 1:
        return x
    return torch.complex(x.real * alpha, x.imag * alpha) if x.is_complex() else x * alpha


def _forwards(count: Any, norm: int) -> Any:
    return 1 if norm == NO_NORM else 1.0 / (math.sqrt(count) if norm == BY_ROOT else count)


def _backwards(count: Any, norm: int) -> Any:
    """The scale of a backward transform that is already divided by its length."""
    return 1 if norm == BY_COUNT else math.sqrt(count) if norm == BY_ROOT else count


def _as_last(x: Tensor, axis: int) -> Tensor:
    return x.movedim(axis, -1).clone(memory_format=torch.contiguous_format)


def is_single_node(x: Tensor, dim: Sequence[int], norm: int, wanted: int) -> bool:
    """Whether one GE node computes the call."""
    return len(dim) == 1 and dim[0] % x.dim() == x.dim() - 1 and norm == wanted


def _along(x: Tensor, dim: Sequence[int], forward: bool, transform: Complex) -> Tensor:
    for axis in dim:
        x = transform(_as_last(x, axis), forward).movedim(-1, axis)
    return x


def c2c(x: Tensor, dim: Sequence[int], norm: int, forward: bool, transform: Complex) -> Tensor:
    """Complex to complex: one dimension after the other, each moved to the end."""
    count = math.prod(x.size(axis) for axis in dim)
    return _scaled(_along(x, dim, forward, transform), (_forwards if forward else _backwards)(count, norm))


def r2c(
    x: Tensor, dim: Sequence[int], norm: int, onesided: bool, half: Callable[[Tensor], Tensor], transform: Complex
) -> Tensor:
    """Real to complex: the last dimension of ``dim`` from real numbers, then the others from complex ones."""
    count, (*others, last) = math.prod(x.size(axis) for axis in dim), dim
    if onesided:
        transformed = half(_as_last(x, last)).movedim(-1, last)
    else:
        transformed = _along(torch.complex(x, torch.zeros_like(x)), [last], True, transform)
    return _scaled(_along(transformed, others, True, transform), _forwards(count, norm))


def c2r(
    x: Tensor, dim: Sequence[int], norm: int, size: Any, whole: Callable[[Tensor, Any], Tensor], transform: Complex
) -> Tensor:
    """Complex to real: all dimensions but the last of ``dim`` first, then the last to real numbers."""
    *others, last = dim
    count = math.prod(x.size(axis) for axis in others) * size
    transformed = whole(_as_last(_along(x, others, False, transform), last), size).movedim(-1, last)
    return _scaled(transformed, _backwards(count, norm))
