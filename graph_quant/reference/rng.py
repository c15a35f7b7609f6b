"""Random numbers from a seed and an offset: where a generator of the npu stands alone decides what is drawn.

A CPU generator that is seeded from the pair draws them, so that eager calls and graphs draw the same; the numbers are
the host's own, not the device's. To tracers a draw is one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import torch
from graph_quant.dispatcher import step
from torch import Tensor
from torch._ops import OpOverload

_MIX = 0x9E3779B97F4A7C15
_SEEDS = (1 << 64) - 1
# Masks of bits are kept in bytes for multiples of so many elements.
ALIGNED = 128
# How far one draw moves a generator: the ten that torch_npu asks for, in multiples of four.
_STEP = 12
_moving_on = Lock()


def generator_at(seed: int, offset: int) -> torch.Generator:
    """The CPU generator that draws what a seed and an offset stand for."""
    mixed = (seed ^ (offset * _MIX)) & _SEEDS
    drawing = torch.Generator()
    drawing.manual_seed((mixed ^ mixed >> 32) & 0xFFFFFFFF)  # of a seed the CPU's generator takes so many bits
    return drawing


def _drawn(name: str, draw: Callable[..., Tensor]) -> OpOverload:
    """A draw of so many numbers, as a step. Of an offset that is two numbers the last one counts."""

    def compute(size: Sequence[int], seed: Tensor, offset: Tensor, dtype: torch.dtype) -> Tensor:
        drawing = generator_at(int(seed.reshape(-1)[-1]), int(offset.reshape(-1)[-1]))
        return draw(size, generator=drawing, dtype=dtype)

    def infer(size: Any, seed: Tensor, offset: Tensor, dtype: torch.dtype) -> Tensor:  # noqa: ARG001
        return seed.new_empty(size, dtype=dtype)

    return step(f"{name}(SymInt[] size, Tensor seed, Tensor offset, ScalarType dtype) -> Tensor", compute, infer)


def _in_any_order(size: Sequence[int], *, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    return torch.randperm(size[0], generator=generator, dtype=dtype)


uniform = _drawn("uniform", torch.rand)
normal = _drawn("normal", torch.randn)
permutation = _drawn("permutation", _in_any_order)


def kept_bits(seed: Tensor, offset: Tensor, count: int, keep: Tensor) -> Tensor:
    """One bit for each element that is kept, lowest first, in bytes padded to a multiple of 16."""
    padded = (count + ALIGNED - 1) // ALIGNED * ALIGNED
    kept = uniform([padded], seed, offset, torch.float32) < keep.float()
    return (kept.reshape(-1, 8) * torch.tensor([1, 2, 4, 8, 16, 32, 64, 128])).sum(-1).to(torch.uint8)


def unpacked(mask: Tensor, count: int) -> Tensor:
    """Whether each of ``count`` elements is kept, of a mask of bits."""
    bits = mask.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8) & 1
    return bits.reshape(-1)[:count].bool()


def drawn_bits(seed: int, offset: int, count: int, keep: float) -> Tensor:
    """The mask of ``count`` elements that seed and offset of a generator stand for."""
    return kept_bits(torch.tensor(seed), torch.tensor(offset), count, torch.tensor(keep, dtype=torch.float32))


def next_draw(generator: torch.Generator | None = None) -> tuple[int, int]:
    """Seed and offset of what a generator of an npu, or the current device's own, draws next; its offset moves on."""
    npu = torch.npu  # type: ignore[attr-defined]
    drawing = npu.default_generators[npu.current_device()] if generator is None else generator
    with _moving_on:
        offset = drawing.get_offset()
        drawing.set_offset(offset + _STEP)
    return drawing.initial_seed(), offset


def between_bounds(size: Sequence[int] | int, generator: torch.Generator | None) -> Tensor:
    """Even numbers above 0 and below 1 that a generator of an npu draws next: the host's own, not the device's."""
    return torch.rand(size, generator=generator_at(*next_draw(generator))).clamp(min=2.0**-25)
