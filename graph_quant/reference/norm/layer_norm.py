"""Norms that subtract the mean: npu_add_layer_norm, npu_deep_norm, npu_layer_norm_eval and npu_group_norm_silu.

``(x - mean) * rstd * gamma + beta`` with ``rstd = 1 / sqrt(mean((x - mean)**2) + epsilon)``, in float32, rounded once.
A device adds in the order of its tiling: a mean of n elements may differ by n/2 units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from graph_quant.chip import A2_A3_950, CHIPS
from graph_quant.ge import kernel
from torch import Tensor


def center_and_rstd(x: Tensor, normalised: int, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """float32 ``x`` minus its mean over the last ``normalised`` dimensions, the mean, and rstd, both with keepdim."""
    axes = tuple(range(-normalised, 0))
    share = 1.0 / math.prod(x.shape[-normalised:]) if x.numel() else 0.0
    # Contiguous, because torch adds in memory order and strides may differ between graph and eager execution.
    mean = x.contiguous().sum(axes, keepdim=True) * share
    centred = x - mean
    variance = (centred * centred).contiguous().sum(axes, keepdim=True) * share
    return centred, mean, (variance + epsilon).rsqrt()


@kernel("AddLayerNorm", flops=10, chips=A2_A3_950)
def add_layer_norm_node(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    beta: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    additional_output: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if bias is not None:
        raise NotImplementedError("AddLayerNorm: bias has no host kernel")
    return add_layer_norm(x1, x2, gamma, beta, epsilon, additional_output)


def add_layer_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, additional_output: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``(y, mean, rstd, x1 + x2)``, the sum zero without additional_output; the device leaves it uninitialised."""
    dtype = x1.dtype if x1.dtype == x2.dtype else torch.float32
    wide = x1.float() + x2.float()
    centred, mean, rstd = center_and_rstd(wide, gamma.dim(), epsilon)
    y = (centred * rstd * gamma.float() + beta.float()).to(dtype)
    return y, mean, rstd, wide.to(dtype) if additional_output else torch.zeros_like(y)


@kernel("DeepNorm", flops=11)
def deep_norm(
    x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, *, alpha: float = 0.3, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """``(mean, rstd, y)`` of ``x * alpha + gx``."""
    centred, mean, rstd = center_and_rstd(x.float() * alpha + gx.float(), gamma.dim(), epsilon)
    return mean, rstd, (centred * rstd * gamma.float() + beta.float()).to(x.dtype)


def layer_norm_eval(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Layer norm of the last dimensions; weight defaults to 1, bias to 0."""
    centred, _, rstd = center_and_rstd(x.float(), len(normalized_shape), eps)
    normed = centred * rstd
    normed = normed if weight is None else normed * weight.float()
    return (normed if bias is None else normed + bias.float()).to(x.dtype)


@kernel("LayerNormV3", chips=CHIPS, flops=8)
def layer_norm_v3(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    begin_norm_axis: int = 0,
    begin_params_axis: int = 0,
    epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    axis = begin_norm_axis % x.dim()
    if begin_params_axis % x.dim() != axis:
        raise NotImplementedError("LayerNormV3: parameters of other dimensions than the norm have no host kernel")
    centred, mean, rstd = center_and_rstd(x.float(), x.dim() - axis, epsilon)
    y = centred * rstd * gamma.float().reshape(x.shape[axis:]) + beta.float().reshape(x.shape[axis:])
    return y.to(x.dtype), mean.to(gamma.dtype), rstd.to(gamma.dtype)


@kernel("GroupNormSilu", flops=12)
def group_norm_silu_node(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
    activate_silu: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    if not activate_silu:
        raise NotImplementedError("GroupNormSilu: a norm without its activation has no host kernel")
    return group_norm_silu(x, gamma, beta, num_groups, eps)


def group_norm_silu(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, mean, rstd)`` of a group norm, where y is its SiLU, ``v / (1 + exp(-v))``."""
    centred, mean, rstd = center_and_rstd(x.float().reshape(x.size(0), group, -1), 1, eps)
    channels = [1, -1, *[1] * (x.dim() - 2)]
    normed = (centred * rstd).reshape(x.shape)
    normed = normed if weight is None else normed * weight.float().reshape(channels)
    normed = normed if bias is None else normed + bias.float().reshape(channels)
    y = normed / (1.0 + torch.exp(-normed))
    return y.to(x.dtype), mean.squeeze(-1).to(x.dtype), rstd.squeeze(-1).to(x.dtype)
