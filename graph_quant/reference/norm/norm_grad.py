"""The gradients of npu_rms_norm and npu_deep_norm in float32; those of the inputs are rounded once.

The sums over the normalised dimensions, and over all rows for gamma and beta, are added in the CPU's order. A device
adds in the order of its tiling and on several cores: two orders differ by at most n/2 units in the last place of the
sum of n magnitudes.
"""

from __future__ import annotations

import math

from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from torch import Tensor


def rms_norm_backward(dy: Tensor, x: Tensor, gamma: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """``(dx, dgamma)``: with ``n = x * rstd``, dx is ``(dy * gamma - n * mean(dy * gamma * n)) * rstd``."""
    normed = x.float() * rstd
    upstream = dy.float()
    weighted = upstream * gamma.float()
    average = _sum_last_dims(weighted * normed, gamma.dim()) * (1.0 / math.prod(gamma.shape))
    return ((weighted - normed * average) * rstd).to(x.dtype), _sum_rows(upstream * normed, gamma)


@kernel("RmsNormGrad", flops=12, chips=A2_A3_950)
def rms_norm_grad(dy: Tensor, x: Tensor, rstd: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    return rms_norm_backward(dy, x, gamma, rstd)


@kernel("DeepNormGrad", flops=20)
def deep_norm_backward(
    dy: Tensor, x: Tensor, gx: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor, *, alpha: float = 0.3
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(dx, dgx, dbeta, dgamma)``, where ``dx = alpha * dgx``."""
    share = -1.0 / math.prod(gamma.shape)
    upstream = dy.float()
    weighted = upstream * gamma.float()
    centred = x.float() * alpha + gx.float() - mean
    of_variance = _sum_last_dims(centred * (rstd * rstd * rstd) * weighted, gamma.dim()) * share
    scaled = weighted * rstd
    of_mean = _sum_last_dims(scaled, gamma.dim()) * share
    dgx = centred * of_variance + of_mean + scaled
    dgamma = _sum_rows(centred * rstd * upstream, gamma)
    return (dgx * alpha).to(x.dtype), dgx.to(gx.dtype), _sum_rows(upstream, gamma), dgamma


def _sum_last_dims(x: Tensor, count: int) -> Tensor:
    # Contiguous, because torch adds in memory order and strides may differ between graph and eager execution.
    return x.contiguous().sum(tuple(range(-count, 0)), keepdim=True)


def _sum_rows(x: Tensor, gamma: Tensor) -> Tensor:
    return x.reshape(-1, *gamma.shape).contiguous().sum(0)
