"""npu_add_rms_norm and its kin: a residual sum, and its norm by root mean square.

The sum comes back rounded. The norm of float16 is that of the rounded sum, and is rounded after the product with rstd
and again after the one with gamma; y in float32 is y widened. What is done with bfloat16 hangs on the kernel that the
device's tiling takes on A2 and A3:

- npu_add_rms_norm: rows that are few or narrow are treated as those of float16; others have the norm of the sum before
  it is rounded. Of wide ones that is rstd alone, and y is made of the rounded sum.
- npu_add_rms_norm_cast: the norm is that of the sum before it is rounded, and is rounded once, after both products; of
  wide rows y is made of the rounded sum. y in float32 is y widened, but for few rows, where it is y before rounding.

Rows are few where each has a vector core for itself.
"""

from __future__ import annotations

import math

import torch
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import has_a_core_a_row, reciprocal_rms, rounded_twice
from torch import Tensor

# Elements of a row: what one core norms many rows of at once, and what it has room for, of the two operators.
_NARROW, _ROOM, _ROOM_CAST = 2000, 12288, 8704


@kernel("AddRmsNorm", flops=7)
def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x1 + x2)``."""
    x, wide = _summed(x1, x2)
    width = math.prod(gamma.shape)
    if x1.dtype != torch.bfloat16 or width <= _NARROW or (width <= _ROOM and has_a_core_a_row(x1, gamma.dim())):
        wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return rounded_twice(x.float() if width > _ROOM else wide, rstd, gamma), rstd, x


@kernel("AddRmsNormCast", flops=7)
def add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(y in float32, y, rstd, x1 + x2)``."""
    if x1.dtype != torch.bfloat16:
        y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon=epsilon)
        return y.float(), y, rstd, x
    x, wide = _summed(x1, x2)
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    is_wide = math.prod(gamma.shape) > _ROOM_CAST
    exact = (x.float() if is_wide else wide) * rstd * gamma.float()
    y = exact.to(x1.dtype)
    return exact if not is_wide and has_a_core_a_row(x1, gamma.dim()) else y.float(), y, rstd, x


def _summed(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """The sum as it comes back, and in float32 before it is rounded."""
    wide = x1.float() + x2.float()
    return wide.to(x1.dtype), wide


@kernel("InplaceAddRmsNorm", flops=7, may_alias=True)
def inplace_add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """Writes y over ``x1`` and the sum over ``x2``; ``(x1, rstd, x2)``."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon=epsilon)
    return x1.copy_(y), rstd, x2.copy_(x)


def add_rms_norm_v2(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """``rstd``; y is written over ``x1`` and the sum over ``x2``."""
    return inplace_add_rms_norm(x1, x2, gamma, epsilon=epsilon)[1]


def add_rms_norm_v2_functional(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """``(rstd, y, x1 + x2)``."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon=epsilon)
    return rstd, y, x
