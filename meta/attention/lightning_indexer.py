"""npu_lightning_indexer and npu_quant_lightning_indexer: rules and results.

query is (batches, tokens, heads, 128) or (tokens, heads, 128), key the same with one head, or blocks of tokens; weights
has one for each head of query. The quantised form is of int8, with scales for each head of query and each key.
"""

from __future__ import annotations

import torch
from graph_quant.meta.attention import sparse_rules
from graph_quant.meta.attention.sparse_rules import Form
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import lightning_indexer as reference
from graph_quant.reference.attention.sequences import PAGED
from torch import Tensor

WIDTH, MOST_HEADS, MOST_KEYS = 128, 64, 2048
MORE_KEYS = tuple(range(3072, 8193, 1024))


def _check_heads(rules: Rules, query: Tensor) -> None:
    heads = query.size(-2)
    rules.require(heads <= MOST_HEADS, lambda: f"query.size(-2) must be at most {MOST_HEADS}, got {heads}")


def _indices_result(query: Tensor, sparse_count: int) -> Result:
    return Result((*query.shape[:-2], 1, sparse_count), torch.int32)


@operator("npu_lightning_indexer", reference=reference.lightning_indexer)
def lightning_indexer(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    block_table: Tensor | None,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    return_value: bool,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("query", query, sparse_rules.HALVES)
    rules.dtype("key", key, (query.dtype,), ", the dtype of query")
    rules.dtype("weights", weights, (query.dtype, torch.float32))
    form = Form(query, key, actual_seq_lengths_query, actual_seq_lengths_key, block_table, layout_query, layout_key)
    sparse_rules.check(rules, form, WIDTH, sparse_mode, pre_tokens, next_tokens)
    _check_heads(rules, query)
    sparse_rules.check_like(rules, "weights", weights, "query", query)
    rules.require(
        1 <= sparse_count <= MOST_KEYS or sparse_count in MORE_KEYS,
        lambda: f"sparse_count must lie in [1, {MOST_KEYS}] or be 3072, 4096, ... 8192, got {sparse_count}",
    )
    rules.require(
        not return_value or layout_key != PAGED,
        lambda: f"return_value must be False for keys in pages, got True and layout_key {layout_key}",
    )
    indices = _indices_result(query, sparse_count)
    return Plan((indices, Result(indices.shape if return_value else (0,), query.dtype)))


@operator("npu_quant_lightning_indexer", reference=reference.quant_lightning_indexer)
def quant_lightning_indexer(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    query_quant_mode: int,
    key_quant_mode: int,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    block_table: Tensor | None,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    query_dtype: int | None,
    key_dtype: int | None,
) -> Plan:
    """The same of int8."""
    for name, dtype in (("query_dtype", query_dtype), ("key_dtype", key_dtype)):
        if dtype is not None:
            rules.refuse(f"{name} is for Ascend 950, leave it None on A2 and A3, got {dtype}")
    for name, tensor in (("query", query), ("key", key)):
        rules.dtype(name, tensor, (torch.int8,), " on A2 and A3")
    scales = {"weights": weights, "query_dequant_scale": query_dequant_scale, "key_dequant_scale": key_dequant_scale}
    for name, scale in scales.items():
        rules.dtype(name, scale, (torch.float16,), " on A2 and A3")
    rules.one_of("query_quant_mode", query_quant_mode, (0,))
    rules.one_of("key_quant_mode", key_quant_mode, (0,))
    form = Form(query, key, actual_seq_lengths_query, actual_seq_lengths_key, block_table, layout_query, layout_key)
    sparse_rules.check(rules, form, WIDTH, sparse_mode, pre_tokens, next_tokens)
    _check_heads(rules, query)
    sparse_rules.check_like(rules, "weights", weights, "query", query)
    sparse_rules.check_like(rules, "query_dequant_scale", query_dequant_scale, "query", query)
    sparse_rules.check_like(rules, "key_dequant_scale", key_dequant_scale, "key", key)
    rules.require(
        1 <= sparse_count <= MOST_KEYS, lambda: f"sparse_count must lie in [1, {MOST_KEYS}], got {sparse_count}"
    )
    return Plan((_indices_result(query, sparse_count),))
