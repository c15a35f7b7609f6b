"""npu_add_rms_norm and its kin: a residual sum, and its norm by root mean square.

The sum comes back rounded. The norm of float16 is that of the rounded sum, and is rounded after the product with rstd
and again after the one with gamma. bfloat16 is treated alike where rows are few, each with a vector core for itself, or
narrow, as the device's tiling takes its kernels on A2 and A3; other rows have the norm of the sum before it is rounded.
Of wide ones that is rstd alone, and y is made of the rounded sum.

npu_add_rms_norm_cast is the same with y widened: TorchAir's passes make it of npu_add_rms_norm and a cast. The device's
own kernel for it rounds bfloat16 once, after both products, so that such a graph is not eager execution to the bit.
"""

from __future__ import annotations

import math

import torch
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import has_core_per_row, reciprocal_rms, scale_with_two_roundings
from torch import Tensor

# Elements of a row: up to which a core norms many rows at once, and which it has room for.
_NARROW, _ROOM = 2000, 12288


@kernel("AddRmsNorm", flops=7)
def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x1 + x2)``."""
    x, wide = _summed(x1, x2)
    width = math.prod(gamma.shape)
    if x1.dtype != torch.bfloat16 or width <= _NARROW or (width <= _ROOM and has_core_per_row(x1, gamma.dim())):
        wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return scale_with_two_roundings(x.float() if width > _ROOM else wide, rstd, gamma), rstd, x


@kernel("AddRmsNormCast", flops=7)
def add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(y in float32, y, rstd, x1 + x2)``."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon=epsilon)
    return y.float(), y, rstd, x


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
