"""Normalisations and their gradients: against autograd and against their formulas in float64."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch.nn import functional

from support.kernel_samples.base import FLOATS, Case, gradient, kernel_sample, plain, shape, sizes


@kernel_sample("LayerNormV4")
def layer_norm(chance: random.Random) -> Case:
    dtype, outer, inner = chance.choice(FLOATS[:3]), shape(chance, most=2), shape(chance, 1, most=2, zeros=False)
    x, gamma, beta = plain([*outer, *inner], dtype), plain(inner, dtype), plain(inner, dtype)
    axes, wide = list(range(len(outer), x.dim())), x.double()
    mean = wide.mean(axes, keepdim=True)
    rstd = 1 / torch.sqrt(((wide - mean) ** 2).mean(axes, keepdim=True) + 1e-3)
    inputs = [x, sizes(inner), *((gamma, beta) if chance.random() < 0.7 else ())]
    y = (wide - mean) * rstd
    if len(inputs) > 2:
        y = y * gamma.double() + beta.double()
    return Case(inputs, {"epsilon": 1e-3}, (y.to(dtype), mean.to(dtype), rstd.to(dtype)), bound=8)


@kernel_sample("LayerNormGradV3")
def layer_norm_grad(chance: random.Random) -> Case:
    outer, inner = shape(chance, 1, most=2, zeros=False), shape(chance, 1, most=2, zeros=False)
    inner[-1] = 4
    x, dy, gamma, beta = plain([*outer, *inner]), plain([*outer, *inner]), plain(inner), plain(inner)
    _, mean, rstd = torch.native_layer_norm(x, inner, gamma, beta, 1e-3)
    wide = (x.double(), gamma.double(), beta.double())
    expected = [
        gradient(lambda a, g, b: functional.layer_norm(a, inner, g, b, 1e-3), at, dy.double(), *wide).float()
        for at in range(3)
    ]
    return Case([dy, x, rstd, mean, gamma], {}, expected, bound=64)


def _channels(chance: random.Random, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """An image, and scale, offset, mean and variance of its channels."""
    x = plain([chance.randint(2, 3), chance.randint(1, 3), *shape(chance, 1, most=3, zeros=False)], dtype)
    rows = [plain([x.size(1)]) for _ in range(3)]
    return x, [*rows, torch.rand(x.size(1)) + 0.5]


def _along(row: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return row.double().reshape([1, -1] + [1] * (x.dim() - 2))


@kernel_sample("BNInfer")
def bn_infer(chance: random.Random) -> Case:
    x, (scale, offset, mean, variance) = _channels(chance)
    normal = (x.double() - _along(mean, x)) / torch.sqrt(_along(variance, x) + 1e-3)
    y = normal * _along(scale, x) + _along(offset, x)
    return Case([x, scale, offset, mean, variance], {"epsilon": 1e-3}, y.float(), bound=8)


@kernel_sample("BNInferGrad")
def bn_infer_grad(chance: random.Random) -> Case:
    dy, (scale, _, _, variance) = _channels(chance, chance.choice(FLOATS[:3]))
    expected = dy.double() * _along(scale, dy) / torch.sqrt(_along(variance, dy) + 1e-3)
    return Case([dy, scale, variance], {"epsilon": 1e-3}, expected.to(dy.dtype), bound=4)


@kernel_sample("BatchNormV3")
def batch_norm(chance: random.Random) -> Case:
    x, (scale, offset, mean, variance) = _channels(chance)
    training = chance.random() < 0.5
    axes = [0, *range(2, x.dim())]
    count = x.numel() // x.size(1)
    if not training:
        y = (x.double() - _along(mean, x)) / torch.sqrt(_along(variance, x) + 1e-3) * _along(scale, x)
        y = (y + _along(offset, x)).float()
        attributes = {"epsilon": 1e-3, "is_training": False}
        # The statistics of the batch are unspecified in inference.
        saved = [torch.zeros(0), torch.zeros(0)]
        return Case(
            [x, scale, offset, mean, variance], attributes, (y, mean.clone(), variance.clone(), *saved), bound=8
        )
    wide = x.double()
    own = wide.mean(axes)
    spread = ((wide - _along(own, x)) ** 2).mean(axes)
    rstd = 1 / torch.sqrt(spread + 1e-3)
    y = (wide - _along(own, x)) * _along(rstd, x) * _along(scale, x) + _along(offset, x)
    moved = 0.7 * mean.double() + 0.3 * own, 0.7 * variance.double() + 0.3 * spread * count / max(count - 1, 1)
    expected = tuple(tensor.float() for tensor in (y, *moved, own, rstd))
    attributes = {"epsilon": 1e-3, "momentum": 0.3, "is_training": True}
    return Case([x, scale, offset, mean.clone(), variance.clone()], attributes, expected, bound=16)


def _trained(chance: random.Random) -> tuple[Any, ...]:
    """An image, the gradient of its norm, scale and offset, and the gradients of all three by autograd in float64."""
    x, (scale, offset, _, _) = _channels(chance)
    x, dy = x + torch.randn(x.shape), plain(x.shape)
    wide = [tensor.double() for tensor in (x, scale, offset)]
    gradients = [
        gradient(
            lambda a, g, b: functional.batch_norm(a, None, None, g, b, True, 0.0, 1e-4), at, dy.double(), *wide
        ).float()
        for at in range(3)
    ]
    axes = [0, *range(2, x.dim())]
    return x, dy, scale, x.mean(axes), x.var(axes, correction=0), gradients


@kernel_sample("BNTrainingUpdateGrad", "BN3DTrainingUpdateGrad")
def bn_training_update_grad(chance: random.Random) -> Case:
    x, dy, _, mean, variance, (_, by_scale, by_offset) = _trained(chance)
    return Case([dy, x, mean, variance], {"epsilon": 1e-4}, (by_scale, by_offset), bound=64)


@kernel_sample("BNTrainingReduceGrad")
def bn_training_reduce_grad(chance: random.Random) -> Case:
    x, dy, scale, mean, variance, (by_x, by_scale, by_offset) = _trained(chance)
    return Case([dy, x, by_scale, by_offset, scale, mean, variance], {"epsilon": 1e-4}, by_x, bound=256)


@kernel_sample("SyncBatchNormBackwardReduce")
def sync_batch_norm_reduce(chance: random.Random) -> Case:
    x, dy, _, mean, variance, (_, by_scale, by_offset) = _trained(chance)
    rstd = torch.rsqrt(variance + 1e-4)
    axes = [0, *range(2, x.dim())]
    products = (dy * x).sum(axes)
    centred = (dy.double() * (x.double() - _along(mean, x))).sum(axes).float()
    # The sums are computed separately and cancel.
    return Case([by_offset, products, mean, rstd], {}, (centred, by_scale), bound=1024)


@kernel_sample("SyncBatchNormBackwardElemt")
def sync_batch_norm_elements(chance: random.Random) -> Case:
    x, dy, scale, mean, variance, (by_x, by_scale, by_offset) = _trained(chance)
    rstd, count = torch.rsqrt(variance + 1e-4), x.numel() // x.size(1)
    rows = (mean, rstd, scale, by_offset / count, by_scale / rstd / count)
    return Case([dy, x, *(_along(row, x).float() for row in rows)], {}, by_x, bound=256)


@kernel_sample("GroupNorm")
def group_norm(chance: random.Random) -> Case:
    groups, dtype = chance.randint(1, 2), chance.choice(FLOATS[:3])
    x = plain([2, groups * chance.randint(1, 2), *shape(chance, 1, most=2, zeros=False)], dtype)
    gamma, beta = plain([x.size(1)], dtype), plain([x.size(1)], dtype)
    wide = x.double().reshape(2, groups, -1)
    mean, variance = wide.mean(-1), wide.var(-1, correction=0)
    y = functional.group_norm(x.double(), groups, gamma.double(), beta.double(), 1e-4)
    expected = (y.to(dtype), mean.to(dtype), variance.to(dtype))
    return Case([x, gamma, beta], {"num_groups": groups, "eps": 1e-4}, expected, bound=256)
