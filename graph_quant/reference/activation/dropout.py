"""Dropout with masks sampled from the device's generator or from a seed: ``x / (1 - p)`` for elements that are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from graph_quant.reference.rng import dropout_mask_bits, next_seed_and_offset, unpack_mask
from torch import Tensor


def gen_mask(size: Sequence[int], p: float, seed: int, offset: int) -> Tensor:
    """The bit mask for a seed and an offset."""
    return dropout_mask_bits(seed, offset, math.prod(size), 1 - p)


def apply_mask(x: Tensor, mask: Tensor, p: float) -> Tensor:
    """``x`` scaled where the mask has a 1 bit, else 0."""
    return _scale_kept(x, unpack_mask(mask, x.numel()).reshape(x.shape), p)


def apply_byte_mask(x: Tensor, mask: Tensor, p: float) -> Tensor:
    """``apply_mask`` for a mask with a byte per element."""
    return _scale_kept(x, mask != 0, p)


def do_mask(x: Tensor, mask: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``apply_mask`` and the mask."""
    return apply_mask(x, mask, p), mask


def dropout(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``x`` under a sampled bit mask, and the mask."""
    mask = dropout_mask_bits(*next_seed_and_offset(), x.numel(), 1 - p)
    return apply_mask(x, mask, p), mask


def dropout_by_bytes(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``x`` under a sampled byte mask, and the mask."""
    bits = dropout_mask_bits(*next_seed_and_offset(), x.numel(), 1 - p)
    mask = unpack_mask(bits, x.numel()).reshape(x.shape).to(torch.uint8)
    return apply_byte_mask(x, mask, p), mask


def _scale_kept(x: Tensor, kept: Tensor, p: float) -> Tensor:
    return torch.where(kept, x / torch.tensor(1 - p, dtype=x.dtype), torch.zeros_like(x))
