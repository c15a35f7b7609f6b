"""npu_kv_quant_sparse_flash_attention: sparse attention over a latent cache that stores int8 with its scales.

An entry has 512 int8, then its 64 rope channels in query's dtype as bytes, then four float32 scales as bytes, one per
128 of the int8. It is dequantised to query's dtype, rounded half to even in bfloat16 and half away from zero in
float16; the rest is as in ``sparse_flash_attention``.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rounding import rounded_away
from torch import Tensor

from .sequences import BSND, KeySequences, query_spans
from .sparse_flash_attention import LATENT, ROPE, UNLIMITED, SparseAttributes, attend_selected, check_same_values

OP = "npu_kv_quant_sparse_flash_attention"
WIDTH, TILE = 512, 128
HALF_BYTES, SCALE_BYTES = 2, 4
ENTRY_BYTES = WIDTH + ROPE * HALF_BYTES + WIDTH // TILE * SCALE_BYTES
BY_TILE, TOGETHER = 2, 1


def _dequantise(rows: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The values (token, channel) of cache entries in float32, and the keys: values with rope channels."""
    whole, rope, scales = rows.split([WIDTH, ROPE * HALF_BYTES, WIDTH // TILE * SCALE_BYTES], -1)
    exact = whole.float() * scales.contiguous().view(torch.float32).repeat_interleave(TILE, -1)
    values = (rounded_away(exact, dtype) if dtype == torch.float16 else exact.to(dtype)).float()
    return values, torch.cat([values, rope.contiguous().view(dtype).float()], -1)


def _infer(query: Tensor, *_: Any) -> Tensor:
    return query.new_empty((*query.shape[:-1], WIDTH))


@opaque(_infer)
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
) -> Tensor:
    """The attention of each query over the keys that its indices select."""
    check_same_values(OP, value[..., :WIDTH], key[..., :WIDTH])
    keys = KeySequences(OP, "actual_seq_lengths_kv", layout_kv, actual_seq_lengths_kv, block_table, key)

    def rows(sequence: int) -> tuple[Tensor, Tensor]:
        return _dequantise(keys.rows(key, sequence).squeeze(1), query.dtype)

    queries = query_spans(OP, layout_query, actual_seq_lengths_query, query)
    numbers = SparseAttributes(scale_value, query.dtype, sparse_block_size, sparse_mode)
    heads, indices = query.float().flatten(0, -3), sparse_indices.flatten(0, -2)
    out, _, _ = attend_selected(OP, heads, indices, queries, keys, rows, numbers)
    return out.view(*query.shape[:-1], WIDTH).to(query.dtype)


@kernel("KvQuantSparseFlashAttention", flops=CONTRACTION)
def kv_quant_sparse_flash_attention_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    key_dequant_scale: Tensor | None = None,
    value_dequant_scale: Tensor | None = None,
    block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None,
    *,
    scale_value: float = 1.0,
    key_quant_mode: int = BY_TILE,
    value_quant_mode: int = BY_TILE,
    sparse_block_size: int = 1,
    layout_query: str = BSND,
    layout_kv: str = BSND,
    sparse_mode: int = 3,
    pre_tokens: int = UNLIMITED,  # noqa: ARG001
    next_tokens: int = UNLIMITED,  # noqa: ARG001
    attention_mode: int = 0,
    quant_scale_repo_mode: int = TOGETHER,
    tile_size: int = TILE,
    rope_head_dim: int = ROPE,
) -> Tensor:
    modes = key_quant_mode, value_quant_mode, attention_mode, quant_scale_repo_mode, tile_size, rope_head_dim
    if (
        modes != (BY_TILE, BY_TILE, LATENT, TOGETHER, TILE, ROPE)
        or not key_dequant_scale is value_dequant_scale is None
    ):
        raise NotImplementedError(f"KvQuantSparseFlashAttention: modes {modes} have no host kernel")
    lengths = block_table, actual_seq_lengths_query, actual_seq_lengths_kv
    return kv_quant_sparse_flash_attention(
        query, key, value, sparse_indices, scale_value, *lengths, sparse_block_size, layout_query, layout_kv,
        sparse_mode,
    )  # fmt: skip
