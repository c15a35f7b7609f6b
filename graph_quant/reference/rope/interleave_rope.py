"""npu_interleave_rope: neighbours are pairs, and come back half the width apart.

With a the even elements of x, b the odd ones: ``concat(a, b) * cos + concat(-b, a) * sin`` in float32, rounded once.
"""

from __future__ import annotations

import torch
from graph_quant.ge.kernels import kernel
from graph_quant.reference.rope.rotation import rotated
from torch import Tensor


@kernel("InterleaveRope", flops=3)
def interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The embedding of ``x`` (B, N, S, 64)."""
    apart = torch.cat([x[..., ::2], x[..., 1::2]], -1).float()
    return (apart * cos.float() + rotated(apart) * sin.float()).to(x.dtype)
