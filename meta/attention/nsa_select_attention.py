"""npu_nsa_select_attention and its gradient: rules and results.

query is (tokens, heads, 192), key and value (tokens, fewer heads, 192 and 128), at most 128 heads and 32 for each of
key, in one dtype of float16 and bfloat16; sequences follow each other, and end where actual_seq_qlen and
actual_seq_kvlen say. Blocks are a multiple of 16 keys up to 128, less than 8192 keys in all; each sequence has that
many keys, in whole blocks. A mask of two dimensions asks for sight to the left alone; what is in it is not read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import nsa_select_attention as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
CHANNELS, VALUES = 192, 128
MOST_HEADS, MOST_IN_GROUP, MOST_SEQUENCES = 128, 32, 1024
STEP, MOST_IN_BLOCK, MOST_BLOCKS, MOST_KEYS = 16, 128, 128, 8192
TIMES = 8


def _check(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    head_num: int,
    block: tuple[int, int],
    atten_mask: Tensor | None,
    ends: tuple[Sequence[int] | None, Sequence[int] | None],
) -> None:
    rules.dtype("query", query, HALVES)
    for name, tensor, width in (("query", query, CHANNELS), ("key", key, CHANNELS), ("value", value, VALUES)):
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, 3)
        rules.not_empty(name, tensor)
        rules.equal(f"{name}.size(2)", tensor.size(2), "its channels", width)
    for dim in range(2):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    _check_heads(rules, query.size(1), key.size(1), head_num)
    size, count = block
    _check_blocks(rules, size, count)
    rules.dtype("topk_indices", topk_indices, (torch.int32,))
    rules.rank("topk_indices", topk_indices, 3)
    for dim, wanted in enumerate((query.size(0), key.size(1), count)):
        rules.equal(f"topk_indices.size({dim})", topk_indices.size(dim), "tokens, heads and blocks", wanted)
    if atten_mask is not None:
        rules.dtype("atten_mask", atten_mask, (torch.bool, torch.uint8))
        rules.rank("atten_mask", atten_mask, 2)
    _check_sequences(rules, query, key, ends, size, count)


def _check_heads(rules: Rules, heads: int, kv_heads: int, head_num: int) -> None:
    rules.equal("head_num", head_num, "query.size(1)", heads)
    rules.require(heads <= MOST_HEADS, lambda: f"query.size(1) must be at most {MOST_HEADS}, got {heads}")
    rules.require(
        heads % kv_heads == 0, lambda: f"query.size(1) must be a multiple of key.size(1), {kv_heads}, got {heads}"
    )
    rules.require(
        heads <= MOST_IN_GROUP * kv_heads,
        lambda: f"query.size(1) must be at most {MOST_IN_GROUP} times key.size(1), {kv_heads}, got {heads}",
    )


def _check_blocks(rules: Rules, size: int, count: int) -> None:
    rules.require(
        0 < size <= MOST_IN_BLOCK and size % STEP == 0,
        lambda: f"select_block_size must be a multiple of {STEP} up to {MOST_IN_BLOCK}, got {size}",
    )
    rules.require(
        1 <= count <= MOST_BLOCKS and size * count < MOST_KEYS,
        lambda: f"select_block_count must be 1 to {MOST_BLOCKS}, and below {MOST_KEYS} keys in all, got {count}",
    )


def _check_sequences(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    ends: tuple[Sequence[int] | None, Sequence[int] | None],
    size: int,
    count: int,
) -> None:
    rows, keys = (list(sequence_ends or ()) for sequence_ends in ends)
    rules.require(bool(rows), lambda: "actual_seq_qlen must be given, got None or nothing")
    rules.require(
        len(keys) == len(rows),
        lambda: f"actual_seq_kvlen must have as many ends as actual_seq_qlen, got {len(keys)} and {len(rows)}",
    )
    rules.require(
        len(rows) <= MOST_SEQUENCES, lambda: f"actual_seq_qlen must have at most {MOST_SEQUENCES} ends, got {len(rows)}"
    )
    for name, values, tensor, whole in (
        ("actual_seq_qlen", rows, query, "query"),
        ("actual_seq_kvlen", keys, key, "key"),
    ):
        rules.require(values == sorted(values) and values[0] > 0, lambda n=name, f=values: f"{n} must rise, got {f}")  # type: ignore[misc]
        rules.equal(f"the last of {name}", values[-1], f"{whole}.size(0)", tensor.size(0))
    for sequence, (first, last) in enumerate(zip([0, *keys], keys, strict=False)):
        length = last - first
        rules.require(
            length >= size * count and length % size == 0,
            lambda at=sequence, got=length: (  # type: ignore[misc]
                f"sequence {at} of actual_seq_kvlen must have {size * count} keys at least, by {size}, got {got}"
            ),
        )


@operator("npu_nsa_select_attention", reference=reference.select_attention)
def select_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,  # noqa: ARG001 - any
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    atten_mask: Tensor | None,
    actual_seq_qlen: Sequence[int] | None,
    actual_seq_kvlen: Sequence[int] | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    block, ends = (select_block_size, select_block_count), (actual_seq_qlen, actual_seq_kvlen)
    _check(rules, query, key, value, topk_indices, head_num, block, atten_mask, ends)
    moment = Result((*query.shape[:2], TIMES), torch.float32)
    return Plan((Result((*query.shape[:2], value.size(2)), query.dtype), moment, moment))


@operator("npu_nsa_select_attention_grad", reference=reference.select_attention_grad)
def select_attention_grad(
    rules: Rules,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    topk_indices: Tensor,
    scale_value: float,  # noqa: ARG001
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    atten_mask: Tensor | None,
    actual_seq_qlen: Sequence[int] | None,
    actual_seq_kvlen: Sequence[int] | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    block, ends = (select_block_size, select_block_count), (actual_seq_qlen, actual_seq_kvlen)
    _check(rules, query, key, value, topk_indices, head_num, block, atten_mask, ends)
    rules.dtype("grad", grad, (query.dtype,), ", the dtype of query")
    rules.rank("grad", grad, 3)
    for dim, size in enumerate((*query.shape[:2], value.size(2))):
        rules.equal(f"grad.size({dim})", grad.size(dim), "that of attention_out", size)
    rules.like("attention_out", attention_out, "grad", grad)
    for name, moment in (("softmax_max", softmax_max), ("softmax_sum", softmax_sum)):
        rules.dtype(name, moment, (torch.float32,))
        rules.rank(name, moment, 3)
        for dim, size in enumerate((*query.shape[:2], TIMES)):
            rules.equal(f"{name}.size({dim})", moment.size(dim), "that of the forward call", size)
    return Plan(tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (query, key, value)))
