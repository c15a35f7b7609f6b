"""npu_sparse_lightning_indexer_grad_kl_loss: rules and results.

The indexer has the tensors of npu_dense_lightning_indexer_grad_kl_loss. The attention that it learns from has 32, 64 or
128 heads of 512 channels over one of keys, 64 channels of rotation, and its largest scores and sums, with a head of
keys and then tokens in front. sparse_indices has 1024, 2048, ... 8192 for each token.
"""

from __future__ import annotations

import torch
from graph_quant.meta.attention.dense_lightning_indexer import (
    HEADS,
    Ends,
    check_index,
    check_moment,
    check_operand,
    check_sequences,
)
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.sparse_lightning_indexer_grad_kl_loss import grad_kl_loss as reference
from torch import Tensor

CHANNELS, ROTATED = 512, 64
CHOSEN = tuple(range(1024, 8193, 1024))


@operator("npu_sparse_lightning_indexer_grad_kl_loss", reference=reference)
def grad_kl_loss(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,  # noqa: ARG001 - any
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    actual_seq_qlen: Ends,
    actual_seq_klen: Ends,
    layout: str | None,
    sparse_mode: int | None,
    pre_tokens: int | None,  # noqa: ARG001 - of other modes
    next_tokens: int | None,  # noqa: ARG001
    sinks: Tensor | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    if sinks is not None:
        rules.refuse(f"sinks must be None: the kernels of A2 and A3 do not read them, got {list(sinks.shape)}")
    check_index(rules, query_index, key_index, weights, layout, sparse_mode)
    check_sequences(rules, query_index, key_index, layout, (actual_seq_qlen, actual_seq_klen))
    dtype, leading = query_index.dtype, query_index.dim() - 2
    if query_rope is None or key_rope is None:
        rules.refuse("query_rope and key_rope must be given, got None")
    for name, tensor, like, heads, channels in (
        ("query", query, query_index, HEADS, CHANNELS),
        ("key", key, key_index, (1,), CHANNELS),
        ("query_rope", query_rope, query_index, (query.size(-2),), ROTATED),
        ("key_rope", key_rope, key_index, (1,), ROTATED),
    ):
        check_operand(rules, name, tensor, dtype, layout, heads, channels)
        for dim in range(leading):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), "that of the indexer", like.size(dim))
    rules.dtype("sparse_indices", sparse_indices, (torch.int32,))
    rules.rank("sparse_indices", sparse_indices, leading + 2)
    for dim, size in enumerate((*query.shape[:leading], 1)):
        rules.equal(f"sparse_indices.size({dim})", sparse_indices.size(dim), "tokens, and one head of keys", size)
    rules.one_of("sparse_indices.size(-1)", sparse_indices.size(-1), CHOSEN)
    for name, moment in (("softmax_max", softmax_max), ("softmax_sum", softmax_sum)):
        sizes = (*query.shape[:-3], 1, *query.shape[-3:-1])
        check_moment(rules, name, moment, sizes, "that of the attention")
    inputs = (query_index, key_index, weights)
    return Plan(
        (
            *(Result(tuple(x.shape), x.dtype) for x in inputs),
            Result((1,), torch.float32),
        )
    )
