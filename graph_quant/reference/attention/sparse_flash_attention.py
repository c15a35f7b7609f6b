"""npu_sparse_flash_attention: each query attends to the keys that its row of sparse_indices selects.

An index selects sparse_block_size consecutive keys; the first -1 ends a row. In mode 3 keys after the diagonal from the
lower right corner are skipped. Scores sum over channels and rope channels; weights are rounded to the dtype of the
values, as in dense attention (``arithmetic``). The result of a query without keys is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.checks import value_check
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

from .arithmetic import Arithmetic
from .sequences import BSND, KeySequences, query_spans
from .token_spans import TokenSpan

OP = "npu_sparse_flash_attention"
UNLIMITED = 2**63 - 1
LATENT = 2
ROPE = 64


@dataclass(frozen=True)
class SparseAttributes:
    """The attributes of a call: weights are rounded to ``dtype``, an index selects ``block_size`` keys."""

    scale: float
    dtype: torch.dtype
    block_size: int
    mode: int


@value_check
def check_same_values(op: str, value: Tensor, key: Tensor) -> Tensor:
    """``value``, refused unless it equals ``key``: kernels read either of them."""
    if value.data_ptr() != key.data_ptr() and not torch.equal(value, key):
        index = tuple((value != key).nonzero()[0].tolist())
        raise Refusal(f"{op}: value must hold the values of key in attention_mode 2, got others at {list(index)}")
    return value


def _selected_keys(op: str, row: int, indices: Tensor, size: int, length: int) -> Tensor:
    """The keys that a row of indices selects, in its order."""
    ends = (indices == -1).nonzero()
    blocks = (indices[: int(ends[0])] if ends.numel() else indices).long()
    wrong = ((blocks < 0) | (blocks * size >= length)).nonzero()
    if wrong.numel():
        position = int(wrong[0])
        raise Refusal(
            f"{op}: sparse_indices[{row}][{position}], queries counted one after the other, must name one of "
            f"{-(-length // size)} blocks of keys, got {int(blocks[position])}"
        )
    keys = (blocks[:, None] * size + torch.arange(size)).flatten()
    return keys[keys < length]


def _lse_shape(query: Tensor) -> tuple[int, ...]:
    """The shape of maxima and sums: (batches, 1, tokens, heads), without batches in TND."""
    return *query.shape[:-3], 1, *query.shape[-3:-1]


def _infer(query: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    shape = _lse_shape(query) if others[-1] else (0,)
    sums = [query.new_empty(shape, dtype=torch.float32) for _ in range(2)]
    return query.new_empty(query.shape), sums[0], sums[1]


# By sequence: its values, and its keys with their rope channels.
Rows = Callable[[int], tuple[Tensor, Tensor]]


def attend_selected(
    op: str,
    heads: Tensor,
    indices: Tensor,
    queries: Sequence[TokenSpan],
    keys: KeySequences,
    rows: Rows,
    numbers: SparseAttributes,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result of each query and head in float32, its largest score and its sum of exponentials."""
    out = torch.zeros(*heads.shape[:2], heads.size(2) - ROPE)
    largest, total = (torch.zeros(heads.shape[:2]) for _ in range(2))
    arithmetic = Arithmetic(numbers.scale, numbers.dtype)
    for sequence, span in enumerate(queries):
        values, joined = rows(sequence)
        for row in range(span.start, span.stop):
            named = _selected_keys(op, row, indices[row], numbers.block_size, values.size(0))
            chosen = named[named < keys.seen(sequence, span.length, row - span.start, numbers.mode)]
            if not chosen.numel():
                continue
            scores = arithmetic.scores(heads[row] @ joined[chosen].mT, heads[row])
            largest[row] = scores.amax(-1)
            exponentials = (scores - largest[row, :, None]).exp_()
            total[row] = exponentials.sum(-1)
            out[row] = arithmetic.result(arithmetic.weights(exponentials) @ values[chosen], total[row, :, None])
    return out, largest, total


@opaque(_infer)
def sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    block_table: Tensor | None,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_kv: Tensor | None,
    query_rope: Tensor,
    key_rope: Tensor,
    sparse_block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    return_softmax_lse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and the largest score and the sum of exponentials of each query and head."""
    check_same_values(OP, value, key)
    keys = KeySequences(OP, "actual_seq_lengths_kv", layout_kv, actual_seq_lengths_kv, block_table, key)

    def rows(sequence: int) -> tuple[Tensor, Tensor]:
        values = keys.rows(key, sequence).squeeze(1).float()
        return values, torch.cat([values, keys.rows(key_rope, sequence).squeeze(1).float()], -1)

    heads = torch.cat([query, query_rope], -1).float().flatten(0, -3)
    queries = query_spans(OP, layout_query, actual_seq_lengths_query, query)
    numbers = SparseAttributes(scale_value, query.dtype, sparse_block_size, sparse_mode)
    out, largest, total = attend_selected(OP, heads, sparse_indices.flatten(0, -2), queries, keys, rows, numbers)
    result = out.view(query.shape).to(query.dtype)
    if not return_softmax_lse:
        return result, torch.empty(0), torch.empty(0)
    shape = _lse_shape(query)
    return result, largest.view(shape), total.view(shape)


@kernel("SparseFlashAttention", flops=CONTRACTION)
def sparse_flash_attention_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    *,
    scale_value: float = 1.0,
    sparse_block_size: int = 1,
    layout_query: str = BSND,
    layout_kv: str = BSND,
    sparse_mode: int = 3,
    pre_tokens: int = UNLIMITED,  # noqa: ARG001
    next_tokens: int = UNLIMITED,  # noqa: ARG001
    attention_mode: int = 0,
    return_softmax_lse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    if attention_mode != LATENT or query_rope is None or key_rope is None:
        raise NotImplementedError("SparseFlashAttention: only attention_mode 2, with rope parts, has a host kernel")
    lengths = block_table, actual_seq_lengths_query, actual_seq_lengths_kv
    return sparse_flash_attention(
        query, key, value, sparse_indices, scale_value, *lengths, query_rope, key_rope, sparse_block_size,
        layout_query, layout_kv, sparse_mode, return_softmax_lse,
    )  # fmt: skip
