"""npu_nsa_compress, its gradient and its form for caches: windows of tokens, weighed and summed into one each.

input is (tokens, heads, channels), at most 128 heads and 256 channels by 16, weight (window, heads) of its dtype,
float16 or bfloat16. Windows have 16 to 128 tokens, by 16, and follow each other by compress_stride, by 16 too and no
more than a window; sequences end where actual_seq_len says. The form for caches takes the last window of each sequence
out of blocks of 64 or 128 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import nsa_compress as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
STEP, MOST_IN_WINDOW, MOST_HEADS, MOST_CHANNELS = 16, 128, 128, 256
PAGES = (64, 128)
MOST_IN_LAST_WINDOW, MOST_CACHED_HEADS, MOST_ODD_HEADS, MOST_SEQUENCES = 64, 64, 50, 2048


def _check_window(rules: Rules, window: int, stride: int, most: int) -> None:
    rules.require(
        STEP <= window <= most and window % STEP == 0,
        lambda: f"compress_block_size must be a multiple of {STEP} up to {most}, got {window}",
    )
    rules.require(
        STEP <= stride <= window and stride % STEP == 0,
        lambda: f"compress_stride must be a multiple of {STEP} up to compress_block_size, {window}, got {stride}",
    )


def _check_tokens(rules: Rules, tokens: Tensor, weight: Tensor, window: int, heads: int) -> None:
    """``tokens`` end with heads and channels."""
    rules.not_empty("input", tokens)
    rules.require(tokens.size(-2) <= heads, lambda: f"input.size(-2) must be at most {heads}, got {tokens.size(-2)}")
    width = tokens.size(-1)
    rules.require(
        (width % STEP == 0) & (width <= MOST_CHANNELS),
        lambda: f"input.size(-1) must be a multiple of {STEP} up to {MOST_CHANNELS}, got {width}",
    )
    rules.dtype("weight", weight, (tokens.dtype,), ", the dtype of input")
    rules.rank("weight", weight, 2)
    rules.equal("weight.size(0)", weight.size(0), "compress_block_size", window)
    rules.equal("weight.size(1)", weight.size(1), "input.size(-2)", tokens.size(-2))


def _check_packed(
    rules: Rules, tokens: Tensor, weight: Tensor, window: int, stride: int, ends: Sequence[int] | None
) -> int:
    """The number of windows."""
    rules.dtype("input", tokens, HALVES)
    rules.rank("input", tokens, 3)
    _check_window(rules, window, stride, MOST_IN_WINDOW)
    _check_tokens(rules, tokens, weight, window, MOST_HEADS)
    if not ends:
        rules.refuse("actual_seq_len must be given, got None or nothing")
    rising = list(ends)
    rules.require(
        rising == sorted(rising) and rising[0] >= 0, lambda: f"actual_seq_len must not fall, got {list(ends)}"
    )
    rules.equal("the last of actual_seq_len", rising[-1], "input.size(0)", tokens.size(0))
    return len(reference.window_starts(rising, window, stride))


@operator("npu_nsa_compress", reference=reference.compress)
def compress(
    rules: Rules,
    tokens: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    actual_seq_len: Sequence[int] | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    windows = _check_packed(rules, tokens, weight, compress_block_size, compress_stride, actual_seq_len)
    return Plan((Result((windows, *tokens.shape[1:]), tokens.dtype),))


@operator("npu_nsa_compress_grad", reference=reference.compress_grad)
def compress_grad(
    rules: Rules,
    grad: Tensor,
    tokens: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    actual_seq_len: Sequence[int] | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.require(
        compress_stride < compress_block_size,
        lambda: f"compress_stride must be below compress_block_size, {compress_block_size}, got {compress_stride}",
    )
    windows = _check_packed(rules, tokens, weight, compress_block_size, compress_stride, actual_seq_len)
    rules.dtype("grad", grad, (tokens.dtype,), ", the dtype of input")
    rules.rank("grad", grad, 3)
    for dim, size in enumerate((windows, *tokens.shape[1:])):
        rules.equal(f"grad.size({dim})", grad.size(dim), "that of the forward call", size)
    return Plan(tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (tokens, weight)))


@operator("npu_nsa_compress_infer.cache", reference=reference.compress_infer)
def compress_infer(
    rules: Rules,
    tokens: Tensor,
    weight: Tensor,
    slot_mapping: Tensor,
    compress_block_size: int,
    compress_stride: int,
    page_block_size: int,
    block_table: Tensor | None,
    actual_seq_len: Sequence[int] | None,
    cache: Tensor,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("input", tokens, HALVES)
    rules.rank("input", tokens, 4)
    _check_window(rules, compress_block_size, compress_stride, MOST_IN_LAST_WINDOW)
    _check_tokens(rules, tokens, weight, compress_block_size, MOST_CACHED_HEADS)
    heads = tokens.size(2)
    rules.require(
        heads <= MOST_ODD_HEADS or heads % 2 == 0, lambda: f"input.size(2) must be even above 50, got {heads}"
    )
    rules.one_of("page_block_size", page_block_size, PAGES)
    rules.equal("input.size(1)", tokens.size(1), "page_block_size", page_block_size)
    if block_table is None or actual_seq_len is None:
        rules.refuse("block_table and actual_seq_len must be given, got None")
    sequences = len(actual_seq_len)
    rules.require(
        sequences <= MOST_SEQUENCES, lambda: f"actual_seq_len must have at most {MOST_SEQUENCES}, got {sequences}"
    )
    for name, tensor, dims in (("slot_mapping", slot_mapping, 1), ("block_table", block_table, 2)):
        rules.dtype(name, tensor, (torch.int32,))
        rules.rank(name, tensor, dims)
        rules.equal(f"{name}.size(0)", tensor.size(0), "the number of actual_seq_len", sequences)
    rules.dtype("cache", cache, (tokens.dtype,), ", the dtype of input")
    rules.rank("cache", cache, 3)
    rules.at_least("cache.size(0)", cache.size(0), 1)
    for dim in (1, 2):
        rules.equal(f"cache.size({dim})", cache.size(dim), f"input.size({dim + 1})", tokens.size(dim + 1))
    return Plan(("cache",))
