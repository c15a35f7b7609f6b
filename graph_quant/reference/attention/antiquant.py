"""Dequantisation of int8 and int4 caches: ``(element + offset) * scale``, with scales of six shapes.

Modes: 0 per tensor or per channel, 1 per token, 2 per head, 3 per token and head, 4 and 5 as 1 and 3 with the scales in
blocks like the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ... import int4

PER_CHANNEL, PER_TOKEN, PER_HEAD, PER_TOKEN_HEAD, PAGED_PER_TOKEN, PAGED_PER_TOKEN_HEAD = range(6)


def unpack_int4(x: Tensor) -> Tensor:
    """``x`` with int4 elements unpacked from int32, which packs eight of them."""
    return int4.unpack(x) if x.dtype == torch.int32 else x


@dataclass(frozen=True)
class CacheScales:
    """Scale and offset of a key or value cache, and the mode that says their layout."""

    mode: int
    scale: Tensor
    offset: Tensor | None

    def of_sequence(self, batch: int, first: int, heads: int, tokens: int, blocks: Tensor | None) -> Dequantiser:
        """The parameters of ``tokens`` tokens of one sequence, starting at token ``first`` of its batch."""

        def fitted(x: Tensor) -> Tensor:
            return _reshape_parameter(x.float(), self.mode, batch, first, heads, tokens, blocks)

        return Dequantiser(fitted(self.scale), None if self.offset is None else fitted(self.offset))


@dataclass(frozen=True)
class Dequantiser:
    """Scale and offset, broadcast over (head, token, channel)."""

    scale: Tensor
    offset: Tensor | None

    def apply(self, x: Tensor, head: int, start: int) -> None:
        """Dequantises float32 elements (token, channel) of one head in place; the first row is token ``start``."""
        if self.offset is not None:
            x += _slice_parameter(self.offset, head, start, x.size(0))
        x *= _slice_parameter(self.scale, head, start, x.size(0))


def _slice_parameter(x: Tensor, head: int, start: int, tokens: int) -> Tensor:
    rows = x[head if x.size(0) > 1 else 0]
    return rows[start : start + tokens] if rows.size(0) > 1 else rows


def _reshape_parameter(
    x: Tensor, mode: int, batch: int, first: int, heads: int, tokens: int, blocks: Tensor | None
) -> Tensor:
    if mode == PER_CHANNEL:
        return x.reshape(1, 1, 1) if x.numel() == 1 else x.reshape(heads, 1, -1)
    if mode == PER_TOKEN:
        return x.reshape(-1, x.size(-1))[batch, first : first + tokens].reshape(1, tokens, 1)
    if mode == PER_HEAD:
        return x.reshape(heads, 1, 1)
    if mode == PER_TOKEN_HEAD:
        return x.reshape(-1, heads, x.size(-1))[batch, :, first : first + tokens].unsqueeze(-1)
    assert blocks is not None
    parameters = x[blocks].reshape(blocks.numel(), -1, x.size(-1))  # block, head or one, token
    return parameters.transpose(0, 1).flatten(1)[:, :tokens].unsqueeze(-1)
