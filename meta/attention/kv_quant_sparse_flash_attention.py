"""npu_kv_quant_sparse_flash_attention: rules and results.

query is (..., heads, 576), its rope channels last; key is int8 (..., 1, 656): 512 elements, 128 bytes of rope channels
and 16 bytes of scales. value holds the elements of key once more.
"""

from __future__ import annotations

import torch
from graph_quant.meta.attention import sparse_rules
from graph_quant.meta.attention.sparse_flash_attention import HEADS, check_blocks, check_indices
from graph_quant.meta.attention.sparse_rules import Form
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import kv_quant_sparse_flash_attention as reference
from graph_quant.reference.attention.sparse_flash_attention import LATENT, ROPE
from torch import Tensor

BLOCKS = (1, 2, 4, 8, 16)


def _check_value(rules: Rules, key: Tensor, value: Tensor) -> None:
    rules.dtype("value", value, (torch.int8,), " on A2 and A3")
    rules.rank("value", value, key.dim())
    for dim in range(key.dim() - 1):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    width = value.size(-1)
    rules.require(width >= reference.WIDTH, lambda: f"value.size(-1) must be at least {reference.WIDTH}, got {width}")


@operator("npu_kv_quant_sparse_flash_attention", reference=reference.kv_quant_sparse_flash_attention)
def kv_quant_sparse_flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,  # noqa: ARG001
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
    key_dtype: int | None,
    value_dtype: int | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.one_of("attention_mode", attention_mode, (LATENT,))
    rules.one_of("key_quant_mode", key_quant_mode, (reference.BY_TILE,))
    rules.one_of("value_quant_mode", value_quant_mode, (reference.BY_TILE,))
    rules.one_of("quant_scale_repo_mode", quant_scale_repo_mode, (reference.TOGETHER,))
    rules.one_of("tile_size", tile_size, (reference.TILE,))
    rules.one_of("rope_head_dim", rope_head_dim, (ROPE,))
    for name, scale in (("key_dequant_scale", key_dequant_scale), ("value_dequant_scale", value_dequant_scale)):
        if scale is not None:
            rules.refuse(f"{name} must be None, as key holds the scales, got {list(scale.shape)}")
    for name, dtype in (("key_dtype", key_dtype), ("value_dtype", value_dtype)):
        if dtype is not None:
            rules.refuse(f"{name} is for Ascend 950, leave it None on A2 and A3, got {dtype}")
    rules.dtype("query", query, sparse_rules.HALVES)
    rules.dtype("key", key, (torch.int8,), " on A2 and A3")
    lengths = (actual_seq_lengths_query, actual_seq_lengths_kv, block_table)
    form = Form(query, key, *lengths, layout_query, layout_kv, kv="kv")
    width = reference.WIDTH + ROPE
    sparse_rules.check(rules, form, width, sparse_mode, pre_tokens, next_tokens, key_width=reference.ENTRY_BYTES)
    rules.one_of("query.size(-2)", query.size(-2), HEADS)
    _check_value(rules, key, value)
    check_indices(rules, query, sparse_indices)
    check_blocks(rules, sparse_block_size, key, layout_kv, BLOCKS)
    return Plan((Result((*query.shape[:-1], reference.WIDTH), query.dtype),))
