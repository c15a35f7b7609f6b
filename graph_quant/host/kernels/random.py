"""Random samples from a key and a counter."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...ge import Sizes, from_attr, kernel
from ...reference import rng
from ...reference.rng import pack_mask, unpack_mask


@kernel("StatelessRandomUniformV2")
def random_uniform(shape: Sizes, key: Tensor, counter: Tensor, alg: Sizes, *, dtype: int = 0) -> Tensor:  # noqa: ARG001
    return rng.uniform(shape.ints, key, counter, from_attr(dtype))


@kernel("StatelessRandomNormalV2")
def random_normal(shape: Sizes, key: Tensor, counter: Tensor, alg: Sizes, *, dtype: int = 0) -> Tensor:  # noqa: ARG001
    return rng.normal(shape.ints, key, counter, from_attr(dtype))


@kernel("StatelessBernoulli")
def bernoulli(shape: Sizes, prob: Tensor, seed: Tensor, offset: Tensor, *, dtype: int = 0) -> Tensor:
    return (rng.uniform(shape.ints, seed, offset, torch.float32) < prob.float()).to(from_attr(dtype))


@kernel("StatelessRandperm")
def random_permutation(n: Sizes, seed: Tensor, offset: Tensor, *, layout: int = 0, dtype: int = 9) -> Tensor:  # noqa: ARG001
    return rng.permutation(n.ints[:1], seed, offset, from_attr(dtype))


@kernel("StatelessDropOutGenMask")
def dropout_mask(shape: Sizes, prob: Tensor, seed: Tensor, seed1: Tensor, offset: Tensor | None = None) -> Tensor:
    """Return the mask of kept elements as bits; without ``offset``, ``seed1`` is the offset."""
    start = seed1 if offset is None else offset
    return pack_mask(seed, start, math.prod(shape.ints), prob)


@kernel("DropOutDoMask", "DropOutDoMaskV3")
def dropout(x: Tensor, mask: Tensor, keep_prob: Tensor) -> Tensor:
    scaled = x / keep_prob.to(x.dtype)
    if mask.dtype == torch.bool:
        return torch.where(mask, scaled, torch.zeros_like(x))
    return torch.where(unpack_mask(mask, x.numel()).reshape(x.shape), scaled, torch.zeros_like(x))
