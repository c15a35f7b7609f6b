"""_npu_quantize_per_tensor: rint(x / scale + zero point), clipped first, in float16.

The quotient is rounded to float16, from float32 where x is bfloat16, and so is the sum.
"""

from __future__ import annotations

from torch import Tensor


def quantise(x: Tensor, scale: Tensor, zero_point: Tensor, y: Tensor) -> tuple[()]:
    """Write the integers to ``y``."""
    quotient = (x.float() / scale.float()).half()
    if zero_point.numel():
        quotient = quotient + zero_point.half()
    y.copy_(quotient.float().clamp_(-128, 127).round_().nan_to_num_(0.0))
    return ()
