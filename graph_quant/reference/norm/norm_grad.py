"""The gradients of npu_rms_norm and npu_deep_norm, in float32; those of tensors are rounded once.

The sums over what is normalised, and over all rows for gamma and beta, are taken in the CPU's order. A device adds in
the order of its tiling, and several cores at once: two orders differ by at most n/2 units in the last place of the
sum of n magnitudes.
"""

from __future__ import annotations

import math

from graph_quant.ge import kernel
from torch import Tensor


def rms_norm_backward(dy: Tensor, x: Tensor, gamma: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """``(dx, dgamma)``: with ``n = x * rstd``, dx is ``(dy * gamma - n * mean(dy * gamma * n)) * rstd``."""
    normed = x.float() * rstd
    given = dy.float()
    weighed = given * gamma.float()
    average = _over_last(weighed * normed, gamma.dim()) * (1.0 / math.prod(gamma.shape))
    return ((weighed - normed * average) * rstd).to(x.dtype), _over_rows(given * normed, gamma)


@kernel("RmsNormGrad", flops=12)
def rms_norm_grad(dy: Tensor, x: Tensor, rstd: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    return rms_norm_backward(dy, x, gamma, rstd)


@kernel("DeepNormGrad", flops=20)
def deep_norm_backward(
    dy: Tensor, x: Tensor, gx: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor, *, alpha: float = 0.3
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(dx, dgx, dbeta, dgamma)``, where ``dx = alpha * dgx``."""
    share = -1.0 / math.prod(gamma.shape)
    given = dy.float()
    weighed = given * gamma.float()
    centred = x.float() * alpha + gx.float() - mean
    of_variance = _over_last(centred * (rstd * rstd * rstd) * weighed, gamma.dim()) * share
    scaled = weighed * rstd
    of_mean = _over_last(scaled, gamma.dim()) * share
    dgx = centred * of_variance + of_mean + scaled
    dgamma = _over_rows(centred * rstd * given, gamma)
    return (dgx * alpha).to(x.dtype), dgx.to(gx.dtype), _over_rows(given, gamma), dgamma


def _over_last(x: Tensor, count: int) -> Tensor:
    # Contiguous, for torch adds in the order of memory, and a graph may see another one than eager execution.
    return x.contiguous().sum(tuple(range(-count, 0)), keepdim=True)


def _over_rows(x: Tensor, gamma: Tensor) -> Tensor:
    return x.reshape(-1, *gamma.shape).contiguous().sum(0)
