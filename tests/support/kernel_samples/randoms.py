"""Random samples from NumPy's Mersenne twister."""

from __future__ import annotations

import math
import random

import numpy as np
import torch

from support.kernel_samples.base import FLOATS, GE_NUMBERS, Case, kernel_sample, shape, size, sizes, tensor

MIX = 0x9E3779B97F4A7C15


def words(key: int, offset: int, count: int) -> np.ndarray:  # type: ignore[type-arg]
    """Words of NumPy's Mersenne twister, seeded by a mix of seed and offset."""
    mixed = (key ^ offset * MIX) % (1 << 64)
    twister = np.random.MT19937()
    twister._legacy_seeding((mixed >> 32 ^ mixed) % (1 << 32))  # type: ignore[attr-defined]
    return twister.random_raw(count).astype(np.uint64)


def uniform(key: int, offset: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Uniform samples from the low bits of a word, two words for float64; half precision uses float32."""
    digits = 53 if dtype == torch.float64 else 24
    drawn = words(key, offset, count * (1 + (digits > 32)))
    if digits > 32:
        drawn = drawn[::2] << np.uint64(32) | drawn[1::2]
    numbers = torch.from_numpy((drawn % np.uint64(1 << digits)).astype(np.float64) * 2.0**-digits).to(dtype)
    numbers[numbers >= 1] = 0
    return numbers


def _start(chance: random.Random) -> tuple[int, int, int]:
    return chance.randrange(1 << 62), chance.randrange(1 << 62), chance.randrange(1 << 62)


@kernel_sample("StatelessRandomUniformV2")
def random_uniform(chance: random.Random) -> Case:
    (key, low, offset), full, dtype = _start(chance), shape(chance), chance.choice(FLOATS)
    numbers = uniform(key, offset, math.prod(full), dtype).reshape(full)
    inputs = [sizes(full), torch.tensor([key]), torch.tensor([low, offset]), size(1, torch.int32)]
    return Case(inputs, {"dtype": GE_NUMBERS[dtype]}, numbers)


def _normal(even: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Box-Muller transform of sixteen uniform samples."""
    radius, angle = np.sqrt(-2 * np.log1p(-even[..., :8])), 2 * np.pi * even[..., 8:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], -1)


@kernel_sample("StatelessRandomNormalV2")
def random_normal(chance: random.Random) -> Case:
    """Sixteen at a time; for a remainder the last sixteen are sampled again."""
    (key, low, offset), full = _start(chance), (chance.randint(2, 5), chance.randint(8, 12))
    count = math.prod(full)
    even = uniform(key, offset, count + 16).double().numpy()
    samples = np.empty(count)
    whole = count // 16 * 16
    samples[:whole] = _normal(even[:whole].reshape(-1, 16)).reshape(-1)
    if whole < count:
        samples[-16:] = _normal(even[count:])
    expected = torch.from_numpy(samples).reshape(full).float()
    inputs = [sizes(full), torch.tensor([key]), torch.tensor([low, offset]), size(1, torch.int32)]
    return Case(inputs, {"dtype": GE_NUMBERS[torch.float32]}, expected, bound=64)


@kernel_sample("StatelessBernoulli")
def bernoulli(chance: random.Random) -> Case:
    (key, low, offset), full, chosen = _start(chance), shape(chance), chance.choice((0.0, 0.3, 1.0))
    dtype = chance.choice((*FLOATS, torch.bool, torch.int32))
    hits = uniform(key, offset, math.prod(full)) < np.float32(chosen)
    inputs = [sizes(full), torch.tensor(chosen), torch.tensor([key]), torch.tensor([low, offset])]
    return Case(inputs, {"dtype": GE_NUMBERS[dtype]}, hits.reshape(full).to(dtype))


@kernel_sample("StatelessRandperm")
def random_permutation(chance: random.Random) -> Case:
    """Fisher-Yates shuffle."""
    (key, low, offset), count = _start(chance), chance.randint(0, 40)
    dtype = chance.choice((torch.int64, torch.int32, torch.float32))
    order = list(range(count))
    for position, word in enumerate(words(key, offset, max(count - 1, 0))):
        other = position + int(word) % (count - position)
        order[position], order[other] = order[other], order[position]
    inputs = [size(count), torch.tensor([key]), torch.tensor([low, offset])]
    return Case(inputs, {"layout": 1, "dtype": GE_NUMBERS[dtype]}, torch.tensor(order, dtype=dtype))


def _mask(key: int, offset: int, count: int, kept: float) -> np.ndarray:  # type: ignore[type-arg]
    """Bits, lowest first, in bytes padded to a multiple of 16."""
    padded = -(-count // 128) * 128
    return np.packbits(uniform(key, offset, padded).numpy() < np.float32(kept), bitorder="little")


@kernel_sample("StatelessDropOutGenMask")
def dropout_mask(chance: random.Random) -> Case:
    (key, _, offset), full, kept = _start(chance), shape(chance, most=3), chance.choice((0.0, 0.5, 1.0))
    mask = _mask(key, offset, math.prod(full), kept)
    seeds = [torch.tensor([key]), torch.tensor([offset])]
    if chance.random() < 0.5:
        seeds = [torch.tensor([key]), torch.tensor([7]), torch.tensor([3, offset])]
    return Case([sizes(full), torch.tensor(kept), *seeds], {}, torch.from_numpy(mask))


@kernel_sample("DropOutDoMask", "DropOutDoMaskV3")
def dropout(chance: random.Random) -> Case:
    x, kept = tensor(chance, shape(chance), chance.choice(FLOATS)), chance.choice((0.5, 0.75))
    mask = torch.from_numpy(_mask(5, chance.randrange(99), x.numel(), kept))
    bits = torch.from_numpy(np.unpackbits(mask.numpy(), bitorder="little")[: x.numel()]).bool().reshape(x.shape)
    expected = x / torch.full_like(x, kept)
    expected[~bits] = 0
    kept_elements = bits if chance.random() < 0.3 else mask
    return Case([x, kept_elements, torch.tensor(kept, dtype=x.dtype)], {}, expected)
