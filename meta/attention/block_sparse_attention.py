"""npu_block_sparse_attention: rules and results.

query, key and value are float16 or bfloat16, in TND or BNSD, with heads of 64 or 128 channels. block_sparse_mask is
int8, (batch, head, blocks of queries, blocks of keys), for the longest sequences. Lengths are of each sequence, both
or none, and given in TND.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.block_sparse_attention import block_sparse_attention as reference
from torch import Tensor

LAYOUTS = ("TND", "BNSD")
WIDTHS = (64, 128)
KEYS = 128


@operator("npu_block_sparse_attention", reference=reference)
def block_sparse_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_sparse_mask: Tensor,
    block_shape: Sequence[int],
    q_input_layout: str,
    kv_input_layout: str,
    num_key_value_heads: int,
    scale_value: float,  # noqa: ARG001
    inner_precise: int,
    actual_seq_lengths: Sequence[int] | None,
    actual_seq_lengths_kv: Sequence[int] | None,
    softmax_lse_flag: int | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.one_of("q_input_layout", q_input_layout, LAYOUTS)
    rules.one_of("kv_input_layout", kv_input_layout, (q_input_layout,), ", as of query")
    rules.dtype("query", query, (torch.float16, torch.bfloat16))
    rules.rank("query", query, len(q_input_layout), why=f" in layout {q_input_layout}")
    for name, tensor in (("key", key), ("value", value)):
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, query.dim(), why=", as many as query")
    for dim in range(key.dim()):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    _check_heads(rules, query, key, q_input_layout, num_key_value_heads)
    rules.one_of("inner_precise", inner_precise, (0,) if query.dtype == torch.bfloat16 else (0, 1))
    rules.one_of("softmax_lse_flag", softmax_lse_flag or 0, (0, 1))
    rules.require(
        len(block_shape) >= 2 and block_shape[0] > 0 and block_shape[1] > 0 and block_shape[1] % KEYS == 0,
        lambda: f"block_shape must be queries and keys of a block, the second a multiple of {KEYS}, got {block_shape}",
    )
    whole = longest(rules, query, key, q_input_layout, actual_seq_lengths, actual_seq_lengths_kv)
    check_mask(rules, block_sparse_mask, query, block_shape, whole)
    return Plan((Result(tuple(query.shape), query.dtype), Result((*query.shape[:-1], 1), torch.float32)))


def check_head_groups(rules: Rules, query: Tensor, key: Tensor, kv_heads: int) -> None:
    """Each head of keys is shared by as many heads of queries."""
    rules.equal("key.size(1)", key.size(1), "num_key_value_heads", kv_heads)
    rules.at_least("num_key_value_heads", kv_heads, 1)
    rules.require(
        query.size(1) % kv_heads == 0,
        lambda: f"query.size(1) must be a multiple of num_key_value_heads, got {query.size(1)} and {kv_heads}",
    )


def _check_heads(rules: Rules, query: Tensor, key: Tensor, layout: str, kv_heads: int) -> None:
    check_head_groups(rules, query, key, kv_heads)
    if layout == "BNSD":
        rules.equal("key.size(0)", key.size(0), "query.size(0)", query.size(0))
    rules.one_of("query.size(-1)", query.size(-1), WIDTHS)
    rules.equal("key.size(-1)", key.size(-1), "query.size(-1)", query.size(-1))


def longest(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    layout: str,
    lengths: Sequence[int] | None,
    key_lengths: Sequence[int] | None,
) -> tuple[Any, Any, Any]:
    """How many sequences there are, and the most queries and keys that one has."""
    if (lengths is None) != (key_lengths is None):
        rules.refuse("actual_seq_lengths and actual_seq_lengths_kv must be given both or not at all, got one")
    if lengths is None or key_lengths is None:
        rules.require(layout == "BNSD", lambda: "actual_seq_lengths must be given in layout TND, got None")
        return query.size(0), query.size(2), key.size(2)
    rules.equal("the length of actual_seq_lengths_kv", len(key_lengths), "that of actual_seq_lengths", len(lengths))
    if layout == "BNSD":
        rules.equal("the length of actual_seq_lengths", len(lengths), "the batch", query.size(0))
        return query.size(0), query.size(2), key.size(2)
    rules.at_least("the length of actual_seq_lengths", len(lengths), 1)
    return len(lengths), max(lengths), max(key_lengths)


def check_mask(
    rules: Rules, mask: Tensor, query: Tensor, block_shape: Sequence[int], longest: tuple[Any, Any, Any]
) -> None:
    rules.dtype("block_sparse_mask", mask, (torch.int8,))
    rules.rank("block_sparse_mask", mask, 4)
    sequences, queries, keys = longest
    rows, columns = block_shape[0], block_shape[1]
    wanted = (
        ("the batch", sequences),
        ("the heads of query", query.size(1)),
        ("the blocks of queries", (queries + rows - 1) // rows),
        ("the blocks of keys", (keys + columns - 1) // columns),
    )
    for dim, (what, size) in enumerate(wanted):
        rules.equal(f"block_sparse_mask.size({dim})", mask.size(dim), what, size)
