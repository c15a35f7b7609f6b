"""npu_lightning_indexer_grad: the gradients of the lightning indexer's queries, keys and weights.

query is (batches, tokens, heads, 128) or (tokens, heads, 128), key the same with one head, weights one for each head of
query, all of one dtype, float16 or bfloat16; sparse_indices and dy, the gradient of what they chose, have 2048 a token.
"""

from __future__ import annotations

import torch
from graph_quant.meta.attention import sparse_rules
from graph_quant.meta.attention.sparse_rules import Form
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.lightning_indexer_grad import lightning_indexer_grad as reference
from graph_quant.reference.attention.sequences import BSND
from torch import Tensor

WIDTH, MOST_HEADS, CHOSEN, MOST_BATCHES = 128, 64, 2048, 1024


@operator("npu_lightning_indexer_grad", reference=reference)
def lightning_indexer_grad(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    dy: Tensor,
    sparse_indices: Tensor,
    weights: Tensor,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    layout: str | None,
    sparse_mode: int | None,
    pre_tokens: int | None,
    next_tokens: int | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    used_layout, mode = BSND if layout is None else layout, 0 if sparse_mode is None else sparse_mode
    tokens = [sparse_rules.UNLIMITED if limit is None else limit for limit in (pre_tokens, next_tokens)]
    rules.dtype("query", query, sparse_rules.HALVES)
    rules.one_of("layout", used_layout, (BSND, "TND"))
    lengths = {"actual_seq_lengths_query": actual_seq_lengths_query, "actual_seq_lengths_key": actual_seq_lengths_key}
    for name, ends in lengths.items():
        rules.require(
            ends is None or used_layout != BSND,
            lambda name=name: f"{name} must be None in layout BSND, whose kernel takes whole sequences, got a tensor",  # type: ignore[misc]
        )
    form = Form(query, key, actual_seq_lengths_query, actual_seq_lengths_key, None, used_layout, used_layout)
    sparse_rules.check(rules, form, WIDTH, mode, *tokens)
    heads = query.size(-2)
    rules.require(heads <= MOST_HEADS, lambda: f"query.size(-2) must be at most {MOST_HEADS}, got {heads}")
    batches = query.size(0) if used_layout == BSND else actual_seq_lengths_query.size(0)  # type: ignore[union-attr]
    rules.require(batches <= MOST_BATCHES, lambda: f"batches must be at most {MOST_BATCHES}, got {batches}")
    for name, tensor in (("key", key), ("dy", dy), ("weights", weights)):
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
    sparse_rules.check_like(rules, "weights", weights, "query", query)
    rules.dtype("sparse_indices", sparse_indices, (torch.int32,))
    for name, tensor in (("sparse_indices", sparse_indices), ("dy", dy)):
        _check_chosen(rules, name, tensor, query)
    if used_layout == BSND:
        rules.at_least("key.size(1)", key.size(1), CHOSEN)
    return Plan(tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (query, key, weights)))


def _check_chosen(rules: Rules, name: str, tensor: Tensor, query: Tensor) -> None:
    """A row for each token; the head of keys may be left out."""
    leading = query.dim() - 2
    rules.rank(name, tensor, leading + 1, leading + 2)
    for dim in range(leading):
        rules.equal(f"{name}.size({dim})", tensor.size(dim), f"query.size({dim})", query.size(dim))
    if tensor.dim() == leading + 2:
        rules.equal(f"{name}.size(-2)", tensor.size(-2), "1", 1)
    rules.equal(f"{name}.size(-1)", tensor.size(-1), "the keys that are chosen", CHOSEN)
