"""npu_interleave_rope: pairs are neighbours in the input, and half the width apart in the result.

With a the even and b the odd elements of x: ``concat(a, b) * cos + concat(-b, a) * sin`` in float32, rounded once.
"""

from __future__ import annotations

from graph_quant.ge import kernel
from graph_quant.reference.rope.rotation import rotate_interleaved
from torch import Tensor


@kernel("InterleaveRope", flops=3)
def interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The embedding of ``x`` (B, N, S, 64)."""
    return rotate_interleaved(x.float(), cos.float(), sin.float()).to(x.dtype)
