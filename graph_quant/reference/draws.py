"""Random numbers from a key and a counter: Philox 4x32 in ten rounds, the same on every engine.

Words are uint32 held in int64, so that the arithmetic is plain torch and can be traced. A draw of a device's generator
is its seed, which is the key, and its offset, where it stands; the bits are the host's own, not the device's.
"""

from __future__ import annotations

from threading import Lock

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
# Masks of bits are kept in bytes for multiples of so many elements.
ALIGNED = 128
# How far one draw of a mask moves the generator: the ten that torch_npu asks for, in multiples of four.
_MASK_STEP = 12
_moving_on = Lock()


def words(key: Tensor, counter: Tensor, count: int) -> Tensor:
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


def kept_bits(seed: Tensor, offset: Tensor, count: int, keep: Tensor) -> Tensor:
    """One bit for each element that is kept, lowest first, in bytes padded to a multiple of 16."""
    padded = (count + ALIGNED - 1) // ALIGNED * ALIGNED
    kept = (words(seed, offset, padded) >> 8).to(torch.float32) * 2.0**-24 < keep.float()
    return (kept.reshape(-1, 8) * torch.tensor([1, 2, 4, 8, 16, 32, 64, 128])).sum(-1).to(torch.uint8)


def unpacked(mask: Tensor, count: int) -> Tensor:
    """Whether each of ``count`` elements is kept, of a mask of bits."""
    bits = mask.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8) & 1
    return bits.reshape(-1)[:count].bool()


def drawn_bits(seed: int, offset: int, count: int, keep: float) -> Tensor:
    """The mask of ``count`` elements that seed and offset of a generator stand for."""
    return kept_bits(torch.tensor(seed), torch.tensor(offset), count, torch.tensor(keep, dtype=torch.float32))


def moved_on(generator: torch.Generator, by: int) -> tuple[int, int]:
    """Seed and offset of a generator of an npu, whose offset then moves on."""
    with _moving_on:
        offset = generator.get_offset()
        generator.set_offset(offset + by)
    return generator.initial_seed(), offset


def next_draw() -> tuple[int, int]:
    """Seed and offset of the next mask that the generator of the current device draws."""
    npu = torch.npu  # type: ignore[attr-defined]
    return moved_on(npu.default_generators[npu.current_device()], _MASK_STEP)
