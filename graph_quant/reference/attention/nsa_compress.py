"""npu_nsa_compress: compresses each window of tokens to one, their sum with a weight per position and head.

Float32, rounded once; the order of additions depends on the tiling. The windows of a sequence are those that fit into
it. Tokens outside of all windows have no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

INFER = "npu_nsa_compress_infer"


def window_starts(ends: Sequence[int], window: int, stride: int) -> list[int]:
    """The first token of each window, for sequences that end at ``ends``."""
    return [
        start
        for first, last in zip([0, *ends], ends, strict=False)
        for start in range(first, last - window + 1, stride)
    ]


def _window_tokens(ends: Sequence[int], window: int, stride: int, device: torch.device) -> Tensor:
    """The token indices of each window, (windows, window)."""
    starts = torch.tensor(window_starts(ends, window, stride), dtype=torch.int64, device=device)
    return starts.unsqueeze(1) + torch.arange(window, device=device)


def compress(
    tokens: Tensor, weight: Tensor, compress_block_size: int, compress_stride: int, actual_seq_len: Sequence[int]
) -> Tensor:
    """The compressed tokens, (windows, heads, channels)."""
    token_indices = _window_tokens(actual_seq_len, compress_block_size, compress_stride, tokens.device)
    return (tokens[token_indices].float() * weight.float().unsqueeze(-1)).sum(1).to(tokens.dtype)


def compress_grad(
    grad: Tensor,
    tokens: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    actual_seq_len: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The gradients of tokens and of weight."""
    token_indices = _window_tokens(actual_seq_len, compress_block_size, compress_stride, tokens.device)
    upstream = grad.float().unsqueeze(1)
    grad_tokens = torch.zeros(tokens.shape, device=tokens.device)
    grad_tokens.index_put_((token_indices,), upstream * weight.float().unsqueeze(-1), accumulate=True)
    grad_weight = (upstream * tokens[token_indices].float()).sum((0, 3))
    return grad_tokens.to(tokens.dtype), grad_weight.to(weight.dtype)


def compress_infer(
    tokens: Tensor,
    weight: Tensor,
    slot_mapping: Tensor,
    compress_block_size: int,
    compress_stride: int,
    page_block_size: int,
    block_table: Tensor,
    actual_seq_len: Sequence[int],
    cache: Tensor,
) -> Tensor:
    """Writes the last window of each sequence that has just completed one to its slot in ``cache``."""
    most = block_table.size(1) * page_block_size
    for sequence, length in enumerate(actual_seq_len):
        if not 0 <= length <= most:
            raise Refusal(f"{INFER}: actual_seq_len[{sequence}] must lie in [0, {most}], got {length}")
        if length < compress_block_size or (length - compress_block_size) % compress_stride:
            continue
        positions = torch.arange(length - compress_block_size, length, device=tokens.device)
        blocks = _checked_indices("block_table", block_table[sequence, positions // page_block_size], tokens.size(0))
        slot = _checked_indices("slot_mapping", slot_mapping[sequence], cache.size(0))
        window = tokens[blocks, positions % page_block_size].float() * weight.float().unsqueeze(-1)
        cache[slot] = window.sum(0).to(cache.dtype)
    return cache


def _checked_indices(name: str, indices: Tensor, count: int) -> Tensor:
    wrong = (indices < 0) | (indices >= count)
    if bool(wrong.any()):
        raise Refusal(f"{INFER}: the values of {name} must lie in [0, {count}), got {int(indices[wrong][0])}")
    return indices.long()
