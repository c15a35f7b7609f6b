"""ATB's _npu_flash_attention_v2: self-attention of packed sequences under a mask, with ALiBi slopes or without.

Arithmetic as for _npu_flash_attention. An ALiBi mask is added to the scores unchanged. A compressed mask is expanded by
the kernel in blocks of 128 columns: for a mask that decreases by one per key, the only one that is accepted, this is
``slope * (mask[0, 0] + query - key)``. Keys above the diagonal are read within their block of 128 and hidden beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .atb import BFLOAT16_MASK_VALUE, attend_packed, checked_lengths

OP = "_npu_flash_attention_v2"
NORM, ALIBI, COMPRESSED = 1, 2, 4
SIDE, BLOCK = 256, 128
# Added to a score, it makes the weight vanish beside any other float16 score.
HIDES = -10000.0


def _check_hidden(mask: Tensor) -> None:
    above = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).triu(1)
    if bool((mask[..., above].float() > HIDES).any()):
        raise Refusal(f"{OP}: mask must be {HIDES:.0f} or less above its diagonal, where blocks are left out, got more")


def _check_falling(mask: Tensor) -> None:
    positions = torch.arange(SIDE, device=mask.device, dtype=torch.float32)
    expected = mask[0, 0].float() + positions.unsqueeze(1) - positions
    if not torch.equal(mask.float().tril(), expected.tril()):
        raise Refusal(f"{OP}: a compressed mask must fall by one from key to key up to its diagonal, got another")


def _decompressed(mask: Tensor, slopes: Tensor, length: int) -> Tensor:
    """(heads, queries, keys)."""
    positions = torch.arange(length, device=mask.device)
    rows, columns = positions.unsqueeze(1), positions.unsqueeze(0)
    steps = mask[0, 0].float() + (rows - columns)
    in_block = mask[rows % BLOCK, columns % BLOCK].float()
    steps = torch.where(columns > rows, in_block, steps)
    shifts = steps * slopes.reshape(-1, 1, 1)
    return shifts.masked_fill(columns // BLOCK > rows // BLOCK, -torch.inf)


def flash_attention_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: Sequence[int],
    mask: Tensor,
    slopes: Tensor | None,
    mask_type: int,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> Tensor:
    """Writes to ``out``."""

    def shift(sequence: int, length: int) -> Tensor:
        if slopes is not None:
            return _decompressed(mask, slopes, length)
        if mask_type == ALIBI:
            return (mask if mask.dim() == 3 else mask[sequence])[:, :length, :length].float()
        whole = mask.reshape(-1, *mask.shape[-2:])
        part = whole[sequence if whole.size(0) > 1 else 0, :length, :length].unsqueeze(0)
        return part.float() * BFLOAT16_MASK_VALUE if part.dtype == torch.bfloat16 else part

    if mask_type == COMPRESSED:
        _check_falling(mask)
    elif mask_type == ALIBI:
        _check_hidden(mask)
    most = query.size(0) if mask_type == COMPRESSED else mask.size(-1)
    lengths = checked_lengths(OP, "seq_len", torch.tensor(list(seq_len)), most)
    attend_packed(OP, (query, key, value), shift, lengths, scale_value, num_heads, num_kv_heads or num_heads, out)
    return out
