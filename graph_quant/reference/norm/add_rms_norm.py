"""npu_add_rms_norm and its variants: a residual addition and its RMS norm.

The sum is returned rounded. float16 normalises the rounded sum and rounds after the product with rstd and again after
the product with gamma. bfloat16 does the same if every row has a vector core of its own or rows are narrow, which is
how the device selects kernels on A2 and A3. Other rows normalise the sum before rounding; for wide rows this concerns
rstd only, and y is computed from the rounded sum.

npu_add_rms_norm_cast also returns y in float32: TorchAir's passes fuse npu_add_rms_norm and a cast into it. The device
kernel for it rounds bfloat16 once, after both products, so such a graph is not bitwise equal to eager execution.

Ascend 950 normalises the float32 sum in every dtype and rounds y once, after both products; the float32 result of
npu_add_rms_norm_cast is not rounded.
"""

from __future__ import annotations

import math

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import has_core_per_row, reciprocal_rms, scale_with_two_roundings
from graph_quant.refusals import Refusal
from torch import Tensor

# Elements of a row: the most for which a core handles many rows at once, and the most that fit into a core.
_NARROW, _ROOM = 2000, 12288


def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x1 + x2)``."""
    if is_950():
        normed, rstd, x = _add_and_norm_950(x1, x2, gamma, epsilon)
        return normed.to(x1.dtype), rstd, x
    x, wide = _add(x1, x2)
    width = math.prod(gamma.shape)
    if x1.dtype != torch.bfloat16 or width <= _NARROW or (width <= _ROOM and has_core_per_row(x1, gamma.dim())):
        wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return scale_with_two_roundings(x.float() if width > _ROOM else wide, rstd, gamma), rstd, x


@kernel("AddRmsNorm", flops=7, chips=A2_A3_950)
def add_rms_norm_node(x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x1 + x2)``."""
    require_rows("AddRmsNorm", x1)
    return add_rms_norm(x1, x2, gamma, epsilon=epsilon)


def require_rows(node: str, x1: Tensor) -> None:
    """Refuse what the tiling refuses: a tensor without elements, for which aclnn returns before it."""
    if x1.numel() == 0:
        raise Refusal(f"{node}: x1 must not be empty in a graph, got {list(x1.shape)}")


@kernel("AddRmsNormCast", flops=7, chips=A2_A3_950)
def add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(y in float32, y, rstd, x1 + x2)``."""
    if is_950():
        normed, rstd, x = _add_and_norm_950(x1, x2, gamma, epsilon)
        return normed, normed.to(x1.dtype), rstd, x
    y, rstd, x = add_rms_norm(x1, x2, gamma, epsilon=epsilon)
    return y.float(), y, rstd, x


def _add_and_norm_950(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """``(y in float32, rstd, x1 + x2)`` of Ascend 950."""
    x, wide = _add(x1, x2)
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return wide * rstd * gamma.float(), rstd, x


def _add(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum, and the float32 sum before rounding."""
    wide = x1.float() + x2.float()
    return wide.to(x1.dtype), wide


@kernel("InplaceAddRmsNorm", flops=7, may_alias=True, chips=A2_A3_950)
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
