"""npu_lightning_indexer and npu_quant_lightning_indexer: the top-k keys of each query.

The score of a key is the sum over heads of ``weight * relu(query @ key)`` in float32; of equal scores the earlier key
comes first. The quantised form multiplies int8 exactly, rounds 1/1024 of each ReLU to float16, takes ``weight * query
scale`` in float16 as the weight, and multiplies the sum by the key's scale. A kernel may add in another order, which
moves a score by units in the last place and can exchange keys with scores as close as that. Values are rounded half
away from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rounding import rounded_away
from torch import Tensor

from .sequences import BSND, KeySequences, query_spans

OP, QUANT_OP = "npu_lightning_indexer", "npu_quant_lightning_indexer"
NO_KEY = -1
UNLIMITED = 2**63 - 1
_PART = 1024.0

# The scores of keys for one query, by its row, its sequence and the number of keys that it sees.
Scores = Callable[[int, int, int], Tensor]


def _select_keys(
    op: str,
    query: Tensor,
    keys: KeySequences,
    lengths: Tensor | None,
    layout: str,
    count: int,
    mode: int,
    scores: Scores,
) -> tuple[Tensor, Tensor]:
    """The indices of the largest scores, and the scores; -1 and -inf where a query has fewer keys."""
    tokens = query.shape[:-2]
    indices = torch.full((tokens.numel(), count), NO_KEY, dtype=torch.int32)
    values = torch.full((tokens.numel(), count), -torch.inf)
    for sequence, span in enumerate(query_spans(op, layout, lengths, query)):
        for position in range(span.length):
            seen = keys.seen(sequence, span.length, position, mode)
            row, kept = span.start + position, min(count, seen)
            if kept:
                largest = scores(row, sequence, seen).sort(descending=True, stable=True)
                indices[row, :kept], values[row, :kept] = largest.indices[:kept].int(), largest.values[:kept]
    return indices.view(*tokens, 1, count), values.view(*tokens, 1, count)


def _infer_indexer(query: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    count, _, return_value = others[-3:]
    shape = (*query.shape[:-2], 1, count)
    return query.new_empty(shape, dtype=torch.int32), query.new_empty(shape if return_value else (0,))


@opaque(_infer_indexer)
def lightning_indexer(
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
    return_value: bool,
) -> tuple[Tensor, Tensor]:
    """The indices of the keys with the largest scores, and the scores if ``return_value``."""
    keys = KeySequences(OP, "actual_seq_lengths_key", layout_key, actual_seq_lengths_key, block_table, key)
    rows = [keys.rows(key, sequence).squeeze(1).float() for sequence in range(len(keys.spans))]
    heads, gates = query.float().flatten(0, -3), weights.float().flatten(0, -2)

    def scores(row: int, sequence: int, seen: int) -> Tensor:
        return ((heads[row] @ rows[sequence][:seen].mT).relu_() * gates[row, :, None]).sum(0)

    indices, values = _select_keys(
        OP, query, keys, actual_seq_lengths_query, layout_query, sparse_count, sparse_mode, scores
    )
    return indices, rounded_away(values, query.dtype) if return_value else query.new_empty(0)


def _infer_quant_indexer(query: Tensor, *others: Any) -> Tensor:
    count, _ = others[-2:]
    return query.new_empty((*query.shape[:-2], 1, count), dtype=torch.int32)


@opaque(_infer_quant_indexer)
def quant_lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    block_table: Tensor | None,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
) -> Tensor:
    """The indices of the keys with the largest scores."""
    keys = KeySequences(QUANT_OP, "actual_seq_lengths_key", layout_key, actual_seq_lengths_key, block_table, key)
    # 128 products of int8 are at most 2**21, which float32 adds exactly.
    rows = [keys.rows(key, sequence).squeeze(1).float() for sequence in range(len(keys.spans))]
    scales = [keys.rows(key_dequant_scale, sequence).squeeze(1).float() for sequence in range(len(keys.spans))]
    heads = query.float().flatten(0, -3)
    gates = (weights * query_dequant_scale).float().flatten(0, -2)

    def scores(row: int, sequence: int, seen: int) -> Tensor:
        parts = ((heads[row] @ rows[sequence][:seen].mT).relu_() / _PART).half().float()
        return (parts * gates[row, :, None]).sum(0) * scales[sequence][:seen]

    indices, _ = _select_keys(
        QUANT_OP, query, keys, actual_seq_lengths_query, layout_query, sparse_count, sparse_mode, scores
    )
    return indices


@kernel("LightningIndexer", flops=CONTRACTION)
def lightning_indexer_node(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_key: Tensor | None = None,
    block_table: Tensor | None = None,
    *,
    layout_query: str = BSND,
    layout_key: str = BSND,
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    pre_tokens: int = UNLIMITED,  # noqa: ARG001
    next_tokens: int = UNLIMITED,  # noqa: ARG001
    return_values: bool = False,
) -> tuple[Tensor, Tensor]:
    lengths = actual_seq_lengths_query, actual_seq_lengths_key, block_table
    layouts = layout_query, layout_key
    return lightning_indexer(query, key, weights, *lengths, *layouts, sparse_count, sparse_mode, return_values)


@kernel("QuantLightningIndexer", flops=CONTRACTION)
def quant_lightning_indexer_node(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_key: Tensor | None = None,
    block_table: Tensor | None = None,
    *,
    query_quant_mode: int = 0,  # noqa: ARG001
    key_quant_mode: int = 0,  # noqa: ARG001
    layout_query: str = BSND,
    layout_key: str = BSND,
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    pre_tokens: int = UNLIMITED,  # noqa: ARG001
    next_tokens: int = UNLIMITED,  # noqa: ARG001
) -> Tensor:
    scales = query_dequant_scale, key_dequant_scale
    lengths = actual_seq_lengths_query, actual_seq_lengths_key, block_table
    layouts = layout_query, layout_key
    return quant_lightning_indexer(query, key, weights, *scales, *lengths, *layouts, sparse_count, sparse_mode)
