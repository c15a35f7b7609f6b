"""Sparse attention of DeepSeek V3.2 in vllm-ascend: kernels of the same rules as torch_npu's operators.

The indexer, in float and int8, selects keys; sparse flash attention reads them, from float caches or quantised ones.
"""

from __future__ import annotations

import torch
from graph_quant.extensions.reuse import plan_as
from graph_quant.meta import Plan, Result, Rules, operator
from graph_quant.meta.attention import kv_quant_sparse_flash_attention as kv_quant
from graph_quant.meta.attention import lightning_indexer as indexer
from graph_quant.meta.attention import sparse_flash_attention as sparse
from graph_quant.reference.attention import kv_quant_sparse_flash_attention as kv_quant_reference
from graph_quant.reference.attention.lightning_indexer import lightning_indexer, quant_lightning_indexer
from graph_quant.reference.attention.sparse_flash_attention import sparse_flash_attention
from torch import Tensor

# No limit to the tokens before or after a query.
_ALL = 2**63 - 1


@operator("_C_ascend::npu_lightning_indexer", reference=lightning_indexer)
def rules_of_lightning_indexer(
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
    """Return the plan of torch_npu's npu_lightning_indexer."""
    return plan_as(
        indexer.lightning_indexer,
        rules,
        query,
        key,
        weights,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        block_table,
        layout_query,
        layout_key,
        sparse_count,
        sparse_mode,
        pre_tokens,
        next_tokens,
        return_value,
    )


@operator("_C_ascend::npu_lightning_indexer_quant", reference=quant_lightning_indexer)
def rules_of_lightning_indexer_quant(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    block_table: Tensor | None,
    query_quant_mode: int,
    key_quant_mode: int,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
) -> Plan:
    """Return the plan of torch_npu's npu_quant_lightning_indexer."""
    tensors = query, key, weights, query_dequant_scale, key_dequant_scale
    lengths = actual_seq_lengths_query, actual_seq_lengths_key, block_table
    form = layout_query, layout_key, sparse_count, sparse_mode, _ALL, _ALL, None, None
    return plan_as(indexer.quant_lightning_indexer, rules, *tensors, query_quant_mode, key_quant_mode, *lengths, *form)


@operator("_C_ascend::npu_sparse_flash_attention", reference=sparse_flash_attention)
def rules_of_sparse_flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
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
) -> Plan:
    """Return the plan of torch_npu's npu_sparse_flash_attention."""
    return plan_as(
        sparse.sparse_flash_attention,
        rules,
        query,
        key,
        value,
        sparse_indices,
        scale_value,
        block_table,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        query_rope,
        key_rope,
        sparse_block_size,
        layout_query,
        layout_kv,
        sparse_mode,
        pre_tokens,
        next_tokens,
        attention_mode,
        return_softmax_lse,
        sinks=None,
    )


def kv_quant_sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    block_table: Tensor | None,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_kv: Tensor | None,
    sparse_block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result, and the largest scores and the sums, which are empty."""
    lengths = block_table, actual_seq_lengths_query, actual_seq_lengths_kv
    out = kv_quant_reference.kv_quant_sparse_flash_attention(
        query,
        key,
        value,
        sparse_indices,
        scale_value,
        *lengths,
        sparse_block_size,
        layout_query,
        layout_kv,
        sparse_mode,
    )
    return out, torch.empty((0,)), torch.empty((0,))


@operator("_C_ascend::npu_kv_quant_sparse_flash_attention", reference=kv_quant_sparse_flash_attention)
def rules_of_kv_quant_sparse_flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    key_quant_mode: int,
    value_quant_mode: int,
    key_dequant_scale: Tensor | None,
    value_dequant_scale: Tensor | None,
    block_table: Tensor | None,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_kv: Tensor | None,
    sparse_block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    attention_mode: int,
    quant_scale_repo_mode: int,
    tile_size: int,
    rope_head_dim: int,
    return_softmax_lse: bool,
) -> Plan:
    """Return the plan of torch_npu's npu_kv_quant_sparse_flash_attention, with two empty results more."""
    rules.require(not return_softmax_lse, lambda: "return_softmax_lse must be False, got True")
    plan = plan_as(
        kv_quant.kv_quant_sparse_flash_attention,
        rules,
        query,
        key,
        value,
        sparse_indices,
        scale_value,
        key_quant_mode,
        value_quant_mode,
        key_dequant_scale,
        value_dequant_scale,
        block_table,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        sparse_block_size,
        layout_query,
        layout_kv,
        sparse_mode,
        pre_tokens,
        next_tokens,
        attention_mode,
        quant_scale_repo_mode,
        tile_size,
        rope_head_dim,
        None,
        None,
    )
    return Plan((*plan.results, Result((0,), torch.float32), Result((0,), torch.float32)))
