"""Random numbers: Philox in Python's own integers, and what is made of its words."""

from __future__ import annotations

import math
import random

import numpy as np
import torch

from support.trials.base import FLOATS, GE_NUMBERS, Case, shape, size, sizes, tensor, trial

WORD = (1 << 32) - 1


def words(key: int, low: int, high: int, count: int) -> list[int]:
    """Philox 4x32 of ten rounds, as its authors define it; each step of the counter gives four words."""
    made: list[int] = []
    for step in range(-(-count // 4)):
        counter = (low + step) % (1 << 64) | high << 64
        lanes = [counter >> 32 * at & WORD for at in range(4)]
        keys = [key & WORD, key >> 32]
        for _ in range(10):
            one, two = 0xD2511F53 * lanes[0], 0xCD9E8D57 * lanes[2]
            lanes = [two >> 32 ^ lanes[1] ^ keys[0], two & WORD, one >> 32 ^ lanes[3] ^ keys[1], one & WORD]
            keys = [keys[0] + 0x9E3779B9 & WORD, keys[1] + 0xBB67AE85 & WORD]
        made += lanes
    return made[:count]


def uniform(key: int, low: int, high: int, count: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([(word >> 8) * 2.0**-24 for word in words(key, low, high, count)], np.float32)


def _start(chance: random.Random) -> tuple[int, int, int]:
    return chance.randrange(1 << 62), chance.randrange(1 << 62), chance.randrange(1 << 62)


@trial("StatelessRandomUniformV2")
def random_uniform(chance: random.Random) -> Case:
    (key, low, high), full, dtype = _start(chance), shape(chance), chance.choice(FLOATS)
    numbers = torch.from_numpy(uniform(key, low, high, math.prod(full))).reshape(full).to(dtype)
    numbers[numbers >= 1] = 0
    given = [sizes(full), torch.tensor([key]), torch.tensor([low, high]), size(1, torch.int32)]
    return Case(given, {"dtype": GE_NUMBERS[dtype]}, numbers)


@trial("StatelessRandomNormalV2")
def random_normal(chance: random.Random) -> Case:
    (key, low, high), full, dtype = _start(chance), shape(chance), chance.choice(FLOATS)
    count = math.prod(full)
    pairs = np.array(words(key, low, high, count + count % 2), np.uint64).reshape(-1, 2) >> np.uint64(8)
    radius = np.sqrt(-2 * np.log((pairs[:, 0] + 1) * 2.0**-24))
    angle = 2 * np.pi * pairs[:, 1] * 2.0**-24
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)[:count]
    expected = torch.from_numpy(both).reshape(full).to(torch.float32).to(dtype)
    given = [sizes(full), torch.tensor([key]), torch.tensor([low, high]), size(1, torch.int32)]
    # float64 holds numbers that were made in float32.
    return Case(given, {"dtype": GE_NUMBERS[dtype]}, expected, bound=8 if dtype != torch.float64 else 2.0**33)


@trial("StatelessBernoulli")
def bernoulli(chance: random.Random) -> Case:
    (key, low, high), full, chosen = _start(chance), shape(chance), chance.choice((0.0, 0.3, 1.0))
    dtype = chance.choice((*FLOATS, torch.bool, torch.int32))
    hits = uniform(key, low, high, math.prod(full)) < np.float32(chosen)
    expected = torch.from_numpy(hits).reshape(full).to(dtype)
    given = [sizes(full), torch.tensor(chosen), torch.tensor([key]), torch.tensor([low, high])]
    return Case(given, {"dtype": GE_NUMBERS[dtype]}, expected)


@trial("StatelessRandperm")
def random_permutation(chance: random.Random) -> Case:
    (key, low, high), count = _start(chance), chance.randint(0, 40)
    dtype = chance.choice((torch.int64, torch.int32, torch.float32))
    order = np.argsort(np.array(words(key, low, high, count), np.int64), kind="stable")
    given = [size(count), torch.tensor([key]), torch.tensor([low, high])]
    return Case(given, {"layout": 1, "dtype": GE_NUMBERS[dtype]}, torch.from_numpy(order).to(dtype))


def _mask(key: int, high: int, count: int, kept: float) -> np.ndarray:  # type: ignore[type-arg]
    """Bits, lowest first, in bytes padded to a multiple of 16."""
    padded = -(-count // 128) * 128
    return np.packbits(uniform(key, 0, high, padded) < np.float32(kept), bitorder="little")


@trial("StatelessDropOutGenMask")
def dropout_mask(chance: random.Random) -> Case:
    (key, _, high), full, kept = _start(chance), shape(chance, most=3), chance.choice((0.0, 0.5, 1.0))
    mask = _mask(key, high, math.prod(full), kept)
    seeds = [torch.tensor([key]), torch.tensor([high])]
    if chance.random() < 0.5:
        seeds = [torch.tensor([key]), torch.tensor([7]), torch.tensor([3, high])]
    return Case([sizes(full), torch.tensor(kept), *seeds], {}, torch.from_numpy(mask))


@trial("DropOutDoMask", "DropOutDoMaskV3")
def dropout(chance: random.Random) -> Case:
    x, kept = tensor(chance, shape(chance), chance.choice(FLOATS)), chance.choice((0.5, 0.75))
    mask = torch.from_numpy(_mask(5, chance.randrange(99), x.numel(), kept))
    bits = torch.from_numpy(np.unpackbits(mask.numpy(), bitorder="little")[: x.numel()]).bool().reshape(x.shape)
    expected = x / torch.full_like(x, kept)
    expected[~bits] = 0
    given = bits if chance.random() < 0.3 else mask
    return Case([x, given, torch.tensor(kept, dtype=x.dtype)], {}, expected)
