"""npu_sparse_flash_attention: rules and results.

query is (batches, tokens, heads, 512) or (tokens, heads, 512), key and value, the same values, are alike with one head,
or blocks of tokens; the rope parts have 64 channels. sparse_indices has a row for each query.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.attention import sparse_rules
from graph_quant.meta.attention.sparse_rules import Form
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.sequences import PAGED
from graph_quant.reference.attention.sparse_flash_attention import LATENT, ROPE
from graph_quant.reference.attention.sparse_flash_attention import sparse_flash_attention as reference
from torch import Tensor

WIDTH = 512
HEADS = (1, 2, 4, 8, 16, 32, 64, 128)


def check_parts(
    rules: Rules, query: Tensor, key: Tensor, value: Tensor | None, query_rope: Tensor | None, key_rope: Tensor | None
) -> None:
    for name, part, like_name, like, width in (
        ("value", value, "key", key, WIDTH),
        ("query_rope", query_rope, "query", query, ROPE),
        ("key_rope", key_rope, "key", key, ROPE),
    ):
        if part is None:
            rules.refuse(f"{name} must be given in attention_mode 2, got None")
        rules.dtype(name, part, (query.dtype,), ", the dtype of query")
        sparse_rules.check_like(rules, name, part, like_name, like, width)


def check_indices(rules: Rules, query: Tensor, sparse_indices: Tensor, least: int = 1) -> None:
    """A row of blocks for each query."""
    rules.dtype("sparse_indices", sparse_indices, (torch.int32,))
    rules.rank("sparse_indices", sparse_indices, query.dim())
    for dim in range(query.dim() - 2):
        rules.equal(f"sparse_indices.size({dim})", sparse_indices.size(dim), f"query.size({dim})", query.size(dim))
    rules.equal("sparse_indices.size(-2)", sparse_indices.size(-2), "1", 1)
    rules.at_least("sparse_indices.size(-1)", sparse_indices.size(-1), least)


def check_blocks(
    rules: Rules, sparse_block_size: int, key: Tensor, layout_kv: str, allowed: Sequence[int] = HEADS
) -> None:
    """Blocks of a power of two, which the pages of a cache hold whole."""
    rules.one_of("sparse_block_size", sparse_block_size, allowed)
    if layout_kv == PAGED:
        rules.require(
            key.size(1) % sparse_block_size == 0,
            lambda: f"sparse_block_size must divide key.size(1), got {sparse_block_size} and {key.size(1)}",
        )


@operator("npu_sparse_flash_attention", reference=reference)
def sparse_flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    sparse_indices: Tensor,
    scale_value: float,  # noqa: ARG001
    block_table: Tensor | None,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_kv: Tensor | None,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    sparse_block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    attention_mode: int,
    return_softmax_lse: bool,
    sinks: Tensor | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.one_of("attention_mode", attention_mode, (LATENT,))
    if sinks is not None:
        rules.refuse(f"sinks are for Ascend 950, leave them None on A2 and A3, got {list(sinks.shape)}")
    rules.dtype("query", query, sparse_rules.HALVES)
    rules.dtype("key", key, (query.dtype,), ", the dtype of query")
    lengths = (actual_seq_lengths_query, actual_seq_lengths_kv, block_table)
    form = Form(query, key, *lengths, layout_query, layout_kv, kv="kv")
    sparse_rules.check(rules, form, WIDTH, sparse_mode, pre_tokens, next_tokens)
    rules.one_of("query.size(-2)", query.size(-2), HEADS)
    check_parts(rules, query, key, value, query_rope, key_rope)
    check_indices(rules, query, sparse_indices, least=0)
    check_blocks(rules, sparse_block_size, key, layout_kv)
    rules.require(
        not return_softmax_lse or layout_kv != PAGED,
        lambda: f"return_softmax_lse must be False for keys in pages, got True and layout_kv {layout_kv}",
    )
    sums = (*query.shape[:-3], 1, *query.shape[-3:-1]) if return_softmax_lse else (0,)
    return Plan((Result(tuple(query.shape), query.dtype), *(Result(sums, torch.float32) for _ in range(2))))
