"""_npu_quant_rms_norm: ``rint(half((x * rstd * gamma + beta) * (1 / scale) + offset))``, clipped, in float32.

Each step is rounded. In a row of at most 8192 elements the squares are multiplied by ``1 / n`` before the sum, in a
longer row after it.
"""

from __future__ import annotations

from torch import Tensor

SLICE = 8192


def quant_rms_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor, output: Tensor, eps: float
) -> tuple[()]:
    """Writes the integers into ``output``."""
    wide = x.float()
    share, squares = 1.0 / x.size(-1), wide * wide
    mean = (squares * share).sum(-1, keepdim=True) if x.size(-1) <= SLICE else squares.sum(-1, keepdim=True) * share
    normed = wide * (mean + eps).rsqrt() * gamma.reshape(-1).float() + beta.reshape(-1).float()
    scaled = (normed * scale.float().reciprocal() + offset.float()).half().float()
    output.copy_(scaled.clamp_(-128, 127).round_().nan_to_num_(0.0))
    return ()
