"""npu_group_norm_swish, a group norm followed by ``v / (1 + exp(-scale * v))``, and its gradient.

Everything is float32, each result rounded once. A device adds in the order of its tiling, and the gradients of weight
and bias in any order.
"""

from __future__ import annotations

import torch
from graph_quant.reference.norm.layer_norm import center_and_rstd
from torch import Tensor

EPS, SCALE = 1e-5, 1.0


def _broadcast_channels(row: Tensor, like: Tensor) -> Tensor:
    return row.float().reshape(1, -1, *[1] * (like.dim() - 2))


def group_norm_swish(
    x: Tensor, num_groups: int, weight: Tensor, bias: Tensor, eps: float | None, swish_scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, mean, rstd)``."""
    scale = SCALE if swish_scale is None else swish_scale
    centred, mean, rstd = center_and_rstd(x.float().reshape(x.size(0), num_groups, -1), 1, EPS if eps is None else eps)
    normed = (centred * rstd).reshape(x.shape) * _broadcast_channels(weight, x) + _broadcast_channels(bias, x)
    y = normed / (1.0 + torch.exp(-scale * normed))
    return y.to(x.dtype), mean.squeeze(-1).to(weight.dtype), rstd.squeeze(-1).to(weight.dtype)


def group_norm_swish_grad(
    grad: Tensor,
    x: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    rstd: Tensor,
    swish_scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, weight and bias, from the mean and rstd of the forward call."""
    scale = SCALE if swish_scale is None else swish_scale
    groups = x.size(0), num_groups, -1
    spread = rstd.float().unsqueeze(-1)
    centred = ((x.float().reshape(groups) - mean.float().unsqueeze(-1)) * spread).reshape(x.shape)
    gamma = _broadcast_channels(weight, x)
    normed = centred * gamma + _broadcast_channels(bias, x)
    swish = 1.0 + torch.exp(-scale * normed)
    slope = (1.0 + scale * normed * (swish - 1.0) / swish) / swish
    upstream = grad.float() * slope
    others = [dim for dim in range(x.dim()) if dim != 1]
    weighted = (upstream * gamma).reshape(groups)
    flat = centred.reshape(groups)
    part = weighted - weighted.mean(-1, keepdim=True) - flat * (weighted * flat).mean(-1, keepdim=True)
    return (
        (part * spread).reshape(x.shape).to(x.dtype),
        (upstream * centred).sum(others).to(weight.dtype),
        upstream.sum(others).to(bias.dtype),
    )
