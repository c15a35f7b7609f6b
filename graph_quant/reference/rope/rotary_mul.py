"""npu_rotary_mul: rotary embedding of one tensor, in float32, rounded once.

Coefficients of another dtype are converted to that of the tensor first.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.rope.rotation import (
    HALF,
    INTERLEAVE_HALF,
    modes,
    rotate_interleaved,
    rotate_pairs,
)
from torch import Tensor


def rotary_mul(x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = HALF, rotate: Tensor | None = None) -> Tensor:
    """``x * r1 + rotate_pairs(x) * r2``; ``rotate``, if given, is the matrix of the rotation."""
    # Each column of the matrix has one 1 or -1, so that the matmul only moves elements.
    wide = x.float()
    if rotary_mode == INTERLEAVE_HALF:
        return rotate_interleaved(wide, r1.to(x.dtype).float(), r2.to(x.dtype).float()).to(x.dtype)
    turn = rotate_pairs(wide, rotary_mode) if rotate is None else torch.matmul(wide, rotate.float())
    return (wide * r1.to(x.dtype).float() + turn * r2.to(x.dtype).float()).to(x.dtype)


@kernel("RotaryMul", flops=3, chips=A2_A3_950)
def rotary_mul_node(x: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
    return rotary_mul(x, r1, r2)


@kernel("RotaryPositionEmbedding", flops=3, chips=A2_A3_950)
def rotary_position_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, rotate: Tensor | None = None, *, mode: int = 0
) -> Tensor:
    """``mode`` 0 is half, 1 interleave; Ascend 950 also has 2, quarter, and 3, interleave-half."""
    if not 0 <= mode < len(modes()):
        raise NotImplementedError(f"RotaryPositionEmbedding: mode {mode} has no host kernel on this chip")
    return rotary_mul(x, cos, sin, modes()[mode], rotate)
