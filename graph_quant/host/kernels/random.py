"""Random numbers from a key and a counter: Philox 4x32 in ten rounds, the same on every engine.

Words are uint32 held in int64, so that the arithmetic is plain torch and can be traced.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...ge import Sizes, from_attr, kernel

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def _words(key: Tensor, counter: Tensor, count: int) -> Tensor:
    """``count`` random words, four from each step of the counter.

    A counter of two numbers is the whole 128 bits, low half first; a single number is the high half.
    """
    key = key.reshape(-1)[0].to(torch.int64)
    halves = counter.reshape(-1).to(torch.int64)
    steps = torch.arange((count + 3) // 4, dtype=torch.int64)
    low = steps + halves[0] if halves.numel() > 1 else steps
    high = torch.zeros_like(steps) + halves[-1]
    lanes = [low & _WORD, (low >> 32) & _WORD, high & _WORD, (high >> 32) & _WORD]
    keys = [key & _WORD, (key >> 32) & _WORD]
    for _ in range(_ROUNDS):
        first, second = lanes[0] * _MULTIPLIERS[0], lanes[2] * _MULTIPLIERS[1]
        lanes = [
            ((second >> 32) & _WORD) ^ lanes[1] ^ keys[0],
            second & _WORD,
            ((first >> 32) & _WORD) ^ lanes[3] ^ keys[1],
            first & _WORD,
        ]
        keys = [(keys[0] + _WEYL[0]) & _WORD, (keys[1] + _WEYL[1]) & _WORD]
    return torch.stack(lanes, -1).reshape(-1)[:count]


def _uniform(shape: Sizes, key: Tensor, counter: Tensor) -> Tensor:
    """float32 in [0, 1), from the top 24 bits of a word."""
    words = _words(key, counter, math.prod(shape.ints))
    return ((words >> 8).to(torch.float32) * 2.0**-24).reshape(list(shape.ints))


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
    words = _words(key, counter, (count + 1) // 2 * 2).reshape(-1, 2)
    radius = torch.sqrt(-2.0 * torch.log(((words[:, 0] >> 8) + 1).to(torch.float32) * 2.0**-24))
    angle = (words[:, 1] >> 8).to(torch.float32) * (2.0 * math.pi * 2.0**-24)
    pairs = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], -1).reshape(-1)
    return pairs[:count].reshape(list(shape.ints)).to(from_attr(dtype))


@kernel("StatelessBernoulli")
def bernoulli(shape: Sizes, prob: Tensor, seed: Tensor, offset: Tensor, *, dtype: int = 0) -> Tensor:
    return (_uniform(shape, seed, offset) < prob.float()).to(from_attr(dtype))


@kernel("StatelessRandperm")
def random_permutation(n: Sizes, seed: Tensor, offset: Tensor, *, layout: int = 0, dtype: int = 9) -> Tensor:  # noqa: ARG001
    """The order of as many random words; of equal ones the first comes first."""
    return torch.argsort(_words(seed, offset, n.ints[0]), stable=True).to(from_attr(dtype))


@kernel("StatelessDropOutGenMask")
def dropout_mask(shape: Sizes, prob: Tensor, seed: Tensor, seed1: Tensor, offset: Tensor | None = None) -> Tensor:
    """One bit for each element, lowest first, in bytes padded to a multiple of 16."""
    count = math.prod(shape.ints)
    padded = (count + 127) // 128 * 128
    start = seed1 if offset is None else offset.reshape(-1)[-1]
    words = _words(seed, start, padded)
    kept = (words >> 8).to(torch.float32) * 2.0**-24 < prob.float()
    return (kept.reshape(-1, 8) * torch.tensor([1, 2, 4, 8, 16, 32, 64, 128])).sum(-1).to(torch.uint8)


@kernel("DropOutDoMask", "DropOutDoMaskV3")
def dropout(x: Tensor, mask: Tensor, keep_prob: Tensor) -> Tensor:
    scaled = x / keep_prob.to(x.dtype)
    if mask.dtype == torch.bool:
        return torch.where(mask, scaled, torch.zeros_like(x))
    bits = (mask.reshape(-1, 1).to(torch.int64) >> torch.arange(8)) & 1
    kept = bits.reshape(-1)[: x.numel()].reshape(x.shape)
    return torch.where(kept == 1, scaled, torch.zeros_like(x))
