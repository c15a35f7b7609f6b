"""npu_block_sparse_attention_backward: rules and results.

As for the attention itself, but for heads of 128 channels, and blocks of 128 by 128 where no shape is given. d_out and
attention_out are like query, softmax_lse float32 with one channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.meta.attention.block_sparse_attention import (
    KEYS,
    LAYOUTS,
    check_head_groups,
    check_mask,
    longest,
)
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.block_sparse_attention_backward import block_sparse_attention_backward as reference
from torch import Tensor

WIDTH = 128
BLOCKS = (128, 128)


@dataclass(frozen=True)
class GradientPlan(Plan):
    """``blocks`` are queries and keys of a block."""

    blocks: tuple[int, int]


@operator("npu_block_sparse_attention_backward", reference=reference)
def block_sparse_attention_backward(
    rules: Rules,
    d_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    softmax_lse: Tensor,
    block_sparse_mask: Tensor,
    block_shape: Sequence[int] | None,
    actual_seq_lengths: Sequence[int] | None,
    actual_seq_lengths_kv: Sequence[int] | None,
    q_input_layout: str,
    kv_input_layout: str,
    num_key_value_heads: int,
    scale_value: float,  # noqa: ARG001
) -> GradientPlan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.one_of("q_input_layout", q_input_layout, LAYOUTS, " on A2 and A3")
    rules.one_of("kv_input_layout", kv_input_layout, (q_input_layout,), ", as of query")
    rules.dtype("query", query, (torch.float16, torch.bfloat16))
    rules.rank("query", query, len(q_input_layout), why=f" in layout {q_input_layout}")
    rules.one_of("query.size(-1)", query.size(-1), (WIDTH,))
    rules.dtype("key", key, (query.dtype,), ", the dtype of query")
    rules.rank("key", key, query.dim(), why=", as many as query")
    for dim in range(query.dim()):
        if dim not in ((1, 2) if q_input_layout == "BNSD" else (0, 1)):
            rules.equal(f"key.size({dim})", key.size(dim), f"query.size({dim})", query.size(dim))
    check_head_groups(rules, query, key, num_key_value_heads)
    rules.like("value", value, "key", key)
    rules.like("d_out", d_out, "query", query)
    rules.like("attention_out", attention_out, "query", query)
    rules.dtype("softmax_lse", softmax_lse, (torch.float32,))
    rules.rank("softmax_lse", softmax_lse, query.dim())
    for dim, size in enumerate((*query.shape[:-1], 1)):
        rules.equal(f"softmax_lse.size({dim})", softmax_lse.size(dim), "that of query, with one channel", size)
    blocks = _blocks(rules, block_shape)
    whole = longest(rules, query, key, q_input_layout, actual_seq_lengths, actual_seq_lengths_kv)
    check_mask(rules, block_sparse_mask, query, blocks, whole)
    return GradientPlan(tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (query, key, value)), blocks)


def _blocks(rules: Rules, shape: Sequence[int] | None) -> tuple[int, int]:
    blocks = BLOCKS if shape is None or len(shape) < 2 else (shape[0], shape[1])
    rules.require(
        blocks[0] > 0 and blocks[1] > 0 and blocks[1] % KEYS == 0,
        lambda: f"block_shape must be queries and keys of a block, the second a multiple of {KEYS}, got {list(blocks)}",
    )
    return blocks
