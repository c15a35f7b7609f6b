"""npu_add_rms_norm and its kin: a residual sum, and its norm by root mean square.

y is rounded after the product with rstd and again after the one with gamma. The norm of float16 is that of the rounded
sum, the norm of bfloat16 that of the sum before rounding.
"""

from __future__ import annotations

from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import reciprocal_rms, rounded_twice, summed
from torch import Tensor


@kernel("AddRmsNorm", flops=7)
def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x1 + x2)``."""
    x, wide = summed(x1, x2)
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return rounded_twice(wide, rstd, gamma), rstd, x


@kernel("AddRmsNormCast", flops=7)
def add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(y in float32, y, rstd, x1 + x2)``: y is rounded to its dtype first, and widened."""
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon=epsilon)
    return y.float(), y, rstd, x


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
