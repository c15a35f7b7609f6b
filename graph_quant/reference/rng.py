"""Random samples from a seed and an offset, the state of an NPU generator.

The pair seeds a CPU generator, so that eager calls and graphs produce the same samples. They are the host's samples,
not those of a device. Sampling is one opaque operator to tracers.
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
# Bit masks are padded to multiples of this number of elements.
ALIGNED = 128
# By how much one call advances the offset: torch_npu asks for ten, rounded up to a multiple of four.
_STEP = 12
_lock = Lock()


def generator_at(seed: int, offset: int) -> torch.Generator:
    """A CPU generator that is seeded from a seed and an offset."""
    mixed = (seed ^ (offset * _MIX)) & _SEEDS
    generator = torch.Generator()
    generator.manual_seed((mixed ^ mixed >> 32) & 0xFFFFFFFF)  # the CPU generator uses 32 bits of a seed
    return generator


def _sampler(name: str, sample: Callable[..., Tensor]) -> OpOverload:
    """An opaque operator that samples; of a seed or an offset of several elements it uses the last one."""

    def compute(size: Sequence[int], seed: Tensor, offset: Tensor, dtype: torch.dtype) -> Tensor:
        generator = generator_at(int(seed.reshape(-1)[-1]), int(offset.reshape(-1)[-1]))
        return sample(size, generator=generator, dtype=dtype)

    def infer(size: Any, seed: Tensor, offset: Tensor, dtype: torch.dtype) -> Tensor:  # noqa: ARG001
        return seed.new_empty(size, dtype=dtype)

    return step(f"{name}(SymInt[] size, Tensor seed, Tensor offset, ScalarType dtype) -> Tensor", compute, infer)


def _permutation(size: Sequence[int], *, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    return torch.randperm(size[0], generator=generator, dtype=dtype)


uniform = _sampler("uniform", torch.rand)
normal = _sampler("normal", torch.randn)
permutation = _sampler("permutation", _permutation)


def pack_mask(seed: Tensor, offset: Tensor, count: int, keep: Tensor) -> Tensor:
    """A dropout mask: one bit per element, 1 where it is kept, lowest bit first, padded to a multiple of 16 bytes."""
    padded = (count + ALIGNED - 1) // ALIGNED * ALIGNED
    kept = uniform([padded], seed, offset, torch.float32) < keep.float()
    return (kept.reshape(-1, 8) * torch.tensor([1, 2, 4, 8, 16, 32, 64, 128])).sum(-1).to(torch.uint8)


def unpack_mask(mask: Tensor, count: int) -> Tensor:
    """A bit mask as ``count`` booleans."""
    bits = mask.reshape(-1, 1) >> torch.arange(8, dtype=torch.uint8) & 1
    return bits.reshape(-1)[:count].bool()


def dropout_mask_bits(seed: int, offset: int, count: int, keep: float) -> Tensor:
    """The dropout mask of ``count`` elements for a seed and an offset."""
    return pack_mask(torch.tensor(seed), torch.tensor(offset), count, torch.tensor(keep, dtype=torch.float32))


def next_seed_and_offset(generator: torch.Generator | None = None) -> tuple[int, int]:
    """Seed and offset of an NPU generator, by default the current device's; its offset is advanced."""
    npu = torch.npu  # type: ignore[attr-defined]
    state = npu.default_generators[npu.current_device()] if generator is None else generator
    with _lock:
        offset = state.get_offset()
        state.set_offset(offset + _STEP)
    return state.initial_seed(), offset


def uniform_open(size: Sequence[int] | int, generator: torch.Generator | None) -> Tensor:
    """The next uniform samples in (0, 1) of an NPU generator: the host's samples, not the device's."""
    return torch.rand(size, generator=generator_at(*next_seed_and_offset(generator))).clamp(min=2.0**-25)
