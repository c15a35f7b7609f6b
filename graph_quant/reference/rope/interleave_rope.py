"""npu_interleave_rope: neighbours are pairs, and come back half the width apart.

With a the even elements of x, b the odd ones: ``concat(a, b) * cos + concat(-b, a) * sin`` in float32, rounded once.
"""

from __future__ import annotations

from graph_quant.ge import kernel
from graph_quant.reference.rope.rotation import rotate_interleaved
from torch import Tensor


@kernel("InterleaveRope", flops=3)
def interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The embedding of ``x`` (B, N, S, 64)."""
    return rotate_interleaved(x.float(), cos.float(), sin.float()).to(x.dtype)
