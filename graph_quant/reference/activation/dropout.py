"""Dropout by masks that are drawn from the generator of the device, or from a seed: x / (1 - p) where it is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from graph_quant.reference.rng import dropout_mask_bits, next_seed_and_offset, unpack_mask
from torch import Tensor


def gen_mask(size: Sequence[int], p: float, seed: int, offset: int) -> Tensor:
    """The mask of bits that seed and offset stand for."""
    return dropout_mask_bits(seed, offset, math.prod(size), 1 - p)


def masked(x: Tensor, mask: Tensor, p: float) -> Tensor:
    """``x`` where a bit keeps it, enlarged, and zeros."""
    return _kept(x, unpack_mask(mask, x.numel()).reshape(x.shape), p)


def masked_by_bytes(x: Tensor, mask: Tensor, p: float) -> Tensor:
    """The same for a mask with a byte for each element."""
    return _kept(x, mask != 0, p)


def do_mask(x: Tensor, mask: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``x`` under a given mask, and the mask."""
    return masked(x, mask, p), mask


def dropout(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``x`` under a mask of bits that is drawn, and the mask."""
    mask = dropout_mask_bits(*next_seed_and_offset(), x.numel(), 1 - p)
    return masked(x, mask, p), mask


def dropout_by_bytes(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``x`` under a mask of bytes that is drawn, and the mask."""
    bits = dropout_mask_bits(*next_seed_and_offset(), x.numel(), 1 - p)
    mask = unpack_mask(bits, x.numel()).reshape(x.shape).to(torch.uint8)
    return masked_by_bytes(x, mask, p), mask


def _kept(x: Tensor, kept: Tensor, p: float) -> Tensor:
    return torch.where(kept, x / torch.tensor(1 - p, dtype=x.dtype), torch.zeros_like(x))
