"""Normalisations and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import Sizes, kernel
from .checks import check_numel, check_same_shape


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Reshape one value for each channel to broadcast along dimension 1."""
    return values.reshape([1, -1] + [1] * (x.dim() - 2))


def _all_but_channels(x: Tensor) -> list[int]:
    return [axis for axis in range(x.dim()) if axis != 1]


@kernel("LayerNormV4", flops=8)
def layer_norm(
    x: Tensor,
    normalized_shape: Sizes,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.native_layer_norm(x, list(normalized_shape.ints), gamma, beta, epsilon)


@kernel("LayerNormGradV3")
def layer_norm_grad(dy: Tensor, x: Tensor, rstd: Tensor, mean: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    check_same_shape(dy=dy, x=x)
    check_numel(x.numel() // max(gamma.numel(), 1), "rows", rstd=rstd, mean=mean)
    backward = torch.ops.aten.native_layer_norm_backward
    shape = list(gamma.shape)
    return backward(dy, x, shape, mean, rstd, gamma, torch.zeros_like(gamma), [True, True, True])  # type: ignore[no-any-return]


@kernel("BNInfer")
def bn_infer(
    x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    check_numel(x.size(1), "channels", scale=scale, offset=offset, mean=mean, variance=variance)
    return torch.nn.functional.batch_norm(x, mean, variance, scale, offset, False, 0.0, epsilon)


@kernel("BatchNormV3")
def batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.1,
    is_training: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Update the running statistics, which are inputs, in place, as GE does."""
    check_numel(x.size(1), "channels", weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    y, mean, rstd = torch.native_batch_norm(x, weight, bias, running_mean, running_var, is_training, momentum, epsilon)
    return y, running_mean.clone(), running_var.clone(), mean, rstd


@kernel("BNTrainingUpdateGrad", "BN3DTrainingUpdateGrad")
def bn_training_update_grad(
    grads: Tensor, x: Tensor, batch_mean: Tensor, batch_variance: Tensor, *, epsilon: float = 1e-4
) -> tuple[Tensor, Tensor]:
    axes = _all_but_channels(x)
    rstd = torch.rsqrt(batch_variance + epsilon)
    normal = (x.float() - _per_channel(batch_mean, x)) * _per_channel(rstd, x)
    return torch.sum(grads.float() * normal, axes), torch.sum(grads.float(), axes)


@kernel("BNTrainingReduceGrad")
def bn_training_reduce_grad(
    grads: Tensor,
    x: Tensor,
    diff_scale: Tensor,
    diff_offset: Tensor,
    scale: Tensor,
    batch_mean: Tensor,
    batch_variance: Tensor,
    *,
    epsilon: float = 1e-4,
) -> Tensor:
    count = max(x.numel() // max(x.size(1), 1), 1)
    rstd = torch.rsqrt(batch_variance + epsilon)
    normal = (x.float() - _per_channel(batch_mean, x)) * _per_channel(rstd, x)
    inner = grads.float() - (_per_channel(diff_offset, x) + normal * _per_channel(diff_scale, x)) / count
    return (inner * _per_channel(scale * rstd, x)).to(x.dtype)


@kernel("SyncBatchNormBackwardReduce")
def sync_batch_norm_reduce(
    sum_dy: Tensor, sum_dy_dx_pad: Tensor, mean: Tensor, invert_std: Tensor
) -> tuple[Tensor, Tensor]:
    sum_dy_xmu = sum_dy_dx_pad - sum_dy * mean
    return sum_dy_xmu, sum_dy_xmu * invert_std


@kernel("SyncBatchNormBackwardElemt")
def sync_batch_norm_elements(
    grad_output: Tensor,
    save_input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor,
    mean_dy: Tensor,
    mean_dy_xmu: Tensor,
) -> Tensor:
    slope = (save_input - mean) * invstd * invstd * mean_dy_xmu
    return ((grad_output - mean_dy - slope) * invstd * weight).to(grad_output.dtype)


@kernel("BNInferGrad")
def bn_infer_grad(grads: Tensor, scale: Tensor, batch_variance: Tensor, *, epsilon: float = 1e-4) -> Tensor:
    gain = scale * torch.rsqrt(batch_variance + epsilon)
    return (grads.float() * _per_channel(gain, grads)).to(grads.dtype)


# TorchAir leaves the format at GE's default, though its tensors are channels-first.
@kernel("GroupNorm", idle=("is_training", "data_format"))
def group_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, *, num_groups: int, eps: float = 1e-4
) -> tuple[Tensor, Tensor, Tensor]:
    channels = x.size(1)
    size = x.numel() // max(x.size(0) * channels, 1)
    y, mean, _ = torch.native_group_norm(x.contiguous(), gamma, beta, x.size(0), channels, size, num_groups, eps)
    variance = torch.var(x.float().reshape(x.size(0), num_groups, -1), -1, correction=0)
    return y, mean.to(x.dtype), variance.to(x.dtype)
