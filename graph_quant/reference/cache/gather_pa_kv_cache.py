"""npu_gather_pa_kv_cache and its functional form: gathers sequences from paged caches and concatenates them.

Token t of a sequence is in the block in column ``seq_offset // block size + t // block size`` of the block table, at
offset ``t % block size``: seq_offset counts in whole blocks.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.cache.paged_cache import NORM, view_as_tokens
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import checked_index
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_gather_pa_kv_cache"


@value_check
def sequence_ends(op: str, seq_lens: Tensor, tokens: int, is_cumulative: bool) -> Tensor:
    """``seq_lens``; refuses lengths, or cumulative lengths, that are negative or do not add up to ``tokens``."""
    lengths = seq_lens.diff() if is_cumulative else seq_lens
    if is_cumulative and int(seq_lens[0]) != 0:
        raise Refusal(f"{op}: seq_lens[0] must be 0 with is_seq_lens_cumsum, got {int(seq_lens[0])}")
    for index in (lengths < 0).nonzero().flatten().tolist():
        what = f"not be below seq_lens[{index}]" if is_cumulative else "not be negative"
        raise Refusal(f"{op}: seq_lens[{index + is_cumulative}] must {what}, got {seq_lens.tolist()}")
    if int(lengths.sum()) != tokens:
        raise Refusal(f"{op}: the sum of seq_lens must be {tokens}, the tokens of key, got {int(lengths.sum())}")
    return seq_lens


def _locate_tokens(
    cache: Tensor, block_tables: Tensor, seq_lens: Tensor, seq_offset: Tensor | None, tokens: int, is_cumulative: bool
) -> tuple[Tensor, Tensor]:
    """The block of every token and the offset in it; ``cache`` is (blocks, block size, ...)."""
    checked = sequence_ends(OP, seq_lens, tokens, is_cumulative).long()
    ends = checked[1:] if is_cumulative else checked.cumsum(0)
    token = torch.arange(tokens)
    sequence = torch.searchsorted(ends, token, right=True)
    position = token - torch.cat([ends.new_zeros(1), ends[:-1]])[sequence]
    column = position // cache.size(1)
    if seq_offset is not None:
        column = column + (seq_offset.long() // cache.size(1))[sequence]
    column = checked_index(OP, "the values: the column of block_tables for key", column, 0, block_tables.size(1))
    block = checked_index(OP, "the values: the block of key", block_tables.long()[sequence, column], 0, cache.size(0))
    return block, position % cache.size(1)


def gather_pa_kv_cache_functional(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    seq_offset: Tensor | None,
    is_seq_lens_cumsum: bool,
    mode: str,
) -> tuple[Tensor, Tensor]:
    """The keys and values of all sequences, in the shapes of ``key`` and ``value``."""
    keys, values = view_as_tokens(key_cache, mode), view_as_tokens(value_cache, mode)
    index = _locate_tokens(keys, block_tables, seq_lens, seq_offset, key.size(0), is_seq_lens_cumsum)
    return keys[index].reshape(key.shape), values[index].reshape(value.shape)


@functools.wraps(gather_pa_kv_cache_functional)
def gather_pa_kv_cache(**arguments: Any) -> tuple[()]:
    """Writes the keys and values into ``key`` and ``value``."""
    for target, gathered in zip(("key", "value"), gather_pa_kv_cache_functional(**arguments), strict=True):
        arguments[target].copy_(gathered)
    return ()


@kernel("GatherPaKvCache", flops=0, chips=A2_A3_950)
def gather_pa_kv_cache_node(
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    seq_offset: Tensor | None = None,
    *,
    cache_mode: str = NORM,
    is_seq_lens_cumsum: bool = True,
) -> tuple[Tensor, Tensor]:
    return gather_pa_kv_cache_functional(
        key_cache, value_cache, block_tables, seq_lens, key, value, seq_offset, is_seq_lens_cumsum, cache_mode
    )
