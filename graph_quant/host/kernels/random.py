"""Nodes that draw random numbers from a key and a counter."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...ge import Sizes, from_attr, kernel
from ...reference.draws import kept_bits, unpacked, words


def _uniform(shape: Sizes, key: Tensor, counter: Tensor) -> Tensor:
    """float32 in [0, 1), from the top 24 bits of a word."""
    drawn = words(key, counter, math.prod(shape.ints))
    return ((drawn >> 8).to(torch.float32) * 2.0**-24).reshape(list(shape.ints))


def _below_one(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Half precision rounds values just below 1 up to 1, which does not belong to the interval."""
    narrowed = values.to(dtype)
    return torch.where(narrowed < 1, narrowed, torch.zeros_like(narrowed))


@kernel("StatelessRandomUniformV2")
def random_uniform(shape: Sizes, key: Tensor, counter: Tensor, alg: Sizes, *, dtype: int = 0) -> Tensor:  # noqa: ARG001
    return _below_one(_uniform(shape, key, counter), from_attr(dtype))


@kernel("StatelessRandomNormalV2")
def random_normal(shape: Sizes, key: Tensor, counter: Tensor, alg: Sizes, *, dtype: int = 0) -> Tensor:  # noqa: ARG001
    """Box and Muller: two uniform numbers give two normal ones."""
    count = math.prod(shape.ints)
    drawn = words(key, counter, (count + 1) // 2 * 2).reshape(-1, 2)
    radius = torch.sqrt(-2.0 * torch.log(((drawn[:, 0] >> 8) + 1).to(torch.float32) * 2.0**-24))
    angle = (drawn[:, 1] >> 8).to(torch.float32) * (2.0 * math.pi * 2.0**-24)
    pairs = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], -1).reshape(-1)
    return pairs[:count].reshape(list(shape.ints)).to(from_attr(dtype))


@kernel("StatelessBernoulli")
def bernoulli(shape: Sizes, prob: Tensor, seed: Tensor, offset: Tensor, *, dtype: int = 0) -> Tensor:
    return (_uniform(shape, seed, offset) < prob.float()).to(from_attr(dtype))


@kernel("StatelessRandperm")
def random_permutation(n: Sizes, seed: Tensor, offset: Tensor, *, layout: int = 0, dtype: int = 9) -> Tensor:  # noqa: ARG001
    """The order of as many random words; of equal ones the first comes first."""
    return torch.argsort(words(seed, offset, n.ints[0]), stable=True).to(from_attr(dtype))


@kernel("StatelessDropOutGenMask")
def dropout_mask(shape: Sizes, prob: Tensor, seed: Tensor, seed1: Tensor, offset: Tensor | None = None) -> Tensor:
    """The bits that are kept; the offset is the last number where there are two."""
    start = seed1 if offset is None else offset.reshape(-1)[-1]
    return kept_bits(seed, start, math.prod(shape.ints), prob)


@kernel("DropOutDoMask", "DropOutDoMaskV3")
def dropout(x: Tensor, mask: Tensor, keep_prob: Tensor) -> Tensor:
    scaled = x / keep_prob.to(x.dtype)
    if mask.dtype == torch.bool:
        return torch.where(mask, scaled, torch.zeros_like(x))
    return torch.where(unpacked(mask, x.numel()).reshape(x.shape), scaled, torch.zeros_like(x))
