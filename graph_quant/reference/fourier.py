"""Fourier transforms of any dimensions, norms and halves, of those that GE has nodes for: of the last, in one norm.

They take tensors of any device, also traced ones, and what transforms the last dimension: forwards as it is, backwards
divided by its length. Eager calls and graphs round alike by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

NO_NORM, BY_ROOT, BY_COUNT = 0, 1, 2
# The complex numbers of the last dimension, forwards or not.
Complex = Callable[[Tensor, bool], Tensor]


def _scaled(x: Tensor, factor: Any) -> Tensor:
    if isinstance(factor, int) and factor == 1:
        return x
    return torch.complex(x.real * factor, x.imag * factor) if x.is_complex() else x * factor


def _forwards(count: Any, norm: int) -> Any:
    return 1 if norm == NO_NORM else 1.0 / (math.sqrt(count) if norm == BY_ROOT else count)


def _backwards(count: Any, norm: int) -> Any:
    """By what a transform is multiplied that has been divided by its length."""
    return 1 if norm == BY_COUNT else math.sqrt(count) if norm == BY_ROOT else count


def _as_last(x: Tensor, axis: int) -> Tensor:
    return x.movedim(axis, -1).clone(memory_format=torch.contiguous_format)


def is_single_node(x: Tensor, dim: Sequence[int], norm: int, wanted: int) -> bool:
    """Whether a call is what a node computes."""
    return len(dim) == 1 and dim[0] % x.dim() == x.dim() - 1 and norm == wanted


def _along(x: Tensor, dim: Sequence[int], forward: bool, transform: Complex) -> Tensor:
    for axis in dim:
        x = transform(_as_last(x, axis), forward).movedim(-1, axis)
    return x


def c2c(x: Tensor, dim: Sequence[int], norm: int, forward: bool, transform: Complex) -> Tensor:
    """One dimension after the other, each as the last."""
    count = math.prod(x.size(axis) for axis in dim)
    return _scaled(_along(x, dim, forward, transform), (_forwards if forward else _backwards)(count, norm))


def r2c(
    x: Tensor, dim: Sequence[int], norm: int, onesided: bool, half: Callable[[Tensor], Tensor], transform: Complex
) -> Tensor:
    """The last of the dimensions from real numbers, the others from complex ones."""
    count, (*others, last) = math.prod(x.size(axis) for axis in dim), dim
    if onesided:
        found = half(_as_last(x, last)).movedim(-1, last)
    else:
        found = _along(torch.complex(x, torch.zeros_like(x)), [last], True, transform)
    return _scaled(_along(found, others, True, transform), _forwards(count, norm))


def c2r(
    x: Tensor, dim: Sequence[int], norm: int, size: Any, whole: Callable[[Tensor, Any], Tensor], transform: Complex
) -> Tensor:
    """The others of the dimensions first."""
    *others, last = dim
    count = math.prod(x.size(axis) for axis in others) * size
    found = whole(_as_last(_along(x, others, False, transform), last), size).movedim(-1, last)
    return _scaled(found, _backwards(count, norm))
