"""npu_dense_lightning_indexer_softmax_lse and npu_dense_lightning_indexer_grad_kl_loss: rules.

Queries are (B, S1, heads, 128) or (T1, heads, 128), float16 or bfloat16, keys the same with tokens of their own, not
fewer in any sequence. The indexer has 8, 16, 32 or 64 heads and one of keys; weights, of its dtype or float32, one for
each head. The attention that it learns from has 32, 64 or 128 heads, as many of keys, and 64 channels of rotation or
none. Sight is causal, sparse_mode 3, from the last tokens on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention import dense_lightning_indexer as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
CHANNELS, ROTATED, MOST_SEQUENCES = 128, 64, 256
INDEX_HEADS, HEADS = (8, 16, 32, 64), (32, 64, 128)
ANY = 2**63 - 1
Ends = Sequence[int] | None


def check_index(
    rules: Rules, query: Tensor, key: Tensor, weights: Tensor, layout: str | None, sparse_mode: int | None
) -> None:
    """What belongs to the indexer."""
    rules.one_of("layout", layout, ("BSND", "TND"))
    rules.one_of("sparse_mode", sparse_mode, (3,))
    rules.dtype("query_index", query, HALVES)
    check_operand(rules, "query_index", query, query.dtype, layout, INDEX_HEADS)
    check_operand(rules, "key_index", key, query.dtype, layout, (1,))
    kinds = (query.dtype, torch.float32)
    rules.dtype("weights", weights, kinds, ", the dtype of query_index or float32")
    rules.rank("weights", weights, query.dim() - 1, why=f" in layout {layout}")
    for dim, size in enumerate(query.shape[:-1]):
        rules.equal(f"weights.size({dim})", weights.size(dim), f"query_index.size({dim})", size)


def check_operand(
    rules: Rules,
    name: str,
    x: Tensor,
    dtype: torch.dtype,
    layout: str | None,
    heads: Sequence[int],
    channels: int = CHANNELS,
) -> None:
    """A tensor of queries or keys, tokens first."""
    rules.dtype(name, x, (dtype,))
    rules.rank(name, x, 4 if layout == "BSND" else 3, why=f" in layout {layout}")
    rules.not_empty(name, x)
    rules.one_of(f"{name}.size(-2)", x.size(-2), heads)
    rules.equal(f"{name}.size(-1)", x.size(-1), "its channels", channels)


def check_sequences(rules: Rules, query: Tensor, key: Tensor, layout: str | None, ends: tuple[Ends, Ends]) -> None:
    """Sequences of no more queries than keys."""
    rows, keys = ends
    if layout == "BSND":
        batch, tokens, others = query.size(0), query.size(1), key.size(1)
        rules.equal("key_index.size(0)", key.size(0), "query_index.size(0)", batch)
        rules.require(
            batch <= MOST_SEQUENCES, lambda: f"query_index.size(0) must be at most {MOST_SEQUENCES}, got {batch}"
        )
        rules.require(
            tokens <= others, lambda: f"key_index.size(1) must be at least query_index.size(1), {tokens}, got {others}"
        )
        for name, values, size in (("actual_seq_qlen", rows, tokens), ("actual_seq_klen", keys, others)):
            rules.require(
                not values or list(values) == [size * (at + 1) for at in range(len(values))],
                lambda name=name, values=values: f"{name} is for layout TND, it must be None beside BSND, got {values}",  # type: ignore[misc]
            )
        return
    if not rows or not keys:
        rules.refuse("actual_seq_qlen and actual_seq_klen must be given in layout TND, got None or nothing")
    rules.equal("the length of actual_seq_klen", len(keys), "that of actual_seq_qlen", len(rows))
    rules.require(
        len(rows) <= MOST_SEQUENCES, lambda: f"actual_seq_qlen must have at most {MOST_SEQUENCES} ends, got {len(rows)}"
    )
    for name, values, size in (("actual_seq_qlen", rows, query.size(0)), ("actual_seq_klen", keys, key.size(0))):
        rules.equal(f"the last of {name}", values[-1], "the tokens", size)
    lengths = [
        [last - first for first, last in zip([0, *sequence_ends], sequence_ends, strict=False)]
        for sequence_ends in (rows, keys)
    ]
    for sequence, (few, many) in enumerate(zip(*lengths, strict=True)):
        rules.require(
            0 <= few <= many,
            lambda at=sequence, few=few, many=many: (  # type: ignore[misc]
                f"sequence {at} of actual_seq_klen must have as many keys as queries, {few}, got {many}"
            ),
        )


def _moments(query: Tensor, layout: str | None) -> tuple[Size, ...]:
    return (query.size(0), 1, query.size(1)) if layout == "BSND" else (1, query.size(0))


@operator("npu_dense_lightning_indexer_softmax_lse", reference=reference.softmax_lse)
def softmax_lse(
    rules: Rules,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    actual_seq_qlen: Ends,
    actual_seq_klen: Ends,
    layout: str | None,
    sparse_mode: int | None,
    pre_tokens: int | None,  # noqa: ARG001 - of other modes
    next_tokens: int | None,  # noqa: ARG001
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    check_index(rules, query_index, key_index, weights, layout, sparse_mode)
    check_sequences(rules, query_index, key_index, layout, (actual_seq_qlen, actual_seq_klen))
    moment = Result(_moments(query_index, layout), torch.float32)
    return Plan((moment, moment))


@operator("npu_dense_lightning_indexer_grad_kl_loss", reference=reference.grad_kl_loss)
def grad_kl_loss(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    softmax_max_index: Tensor,
    softmax_sum_index: Tensor,
    scale_value: float,  # noqa: ARG001 - any
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    actual_seq_qlen: Ends,
    actual_seq_klen: Ends,
    layout: str | None,
    sparse_mode: int | None,
    pre_tokens: int | None,  # noqa: ARG001 - of other modes
    next_tokens: int | None,  # noqa: ARG001
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    check_index(rules, query_index, key_index, weights, layout, sparse_mode)
    check_sequences(rules, query_index, key_index, layout, (actual_seq_qlen, actual_seq_klen))
    dtype = query_index.dtype
    check_operand(rules, "query", query, dtype, layout, HEADS)
    heads = query.size(-2)
    check_operand(rules, "key", key, dtype, layout, (heads,))
    for name, tensor, like in (("query", query, query_index), ("key", key, key_index)):
        for dim in range(tensor.dim() - 2):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), f"{name}_index.size({dim})", like.size(dim))
    _check_rotated(rules, query, key, query_rope, key_rope)
    tokens = (query.size(0), heads, query.size(1), 1) if layout == "BSND" else (heads, query.size(0), 1)
    for name, moment, sizes in (
        ("softmax_max", softmax_max, tokens),
        ("softmax_sum", softmax_sum, tokens),
        ("softmax_max_index", softmax_max_index, _moments(query_index, layout)),
        ("softmax_sum_index", softmax_sum_index, _moments(query_index, layout)),
    ):
        check_moment(rules, name, moment, sizes, "heads and tokens")
    gradients = tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (query_index, key_index, weights))
    return Plan((*gradients, Result((1,), torch.float32)))


def check_moment(rules: Rules, name: str, moment: Tensor, sizes: Sequence[Size], meaning: str) -> None:
    """Refuse a largest score or a sum of a softmax that does not have these sizes."""
    rules.dtype(name, moment, (torch.float32,))
    rules.rank(name, moment, len(sizes))
    for dim, size in enumerate(sizes):
        rules.equal(f"{name}.size({dim})", moment.size(dim), meaning, size)


def _check_rotated(
    rules: Rules, query: Tensor, key: Tensor, query_rope: Tensor | None, key_rope: Tensor | None
) -> None:
    rules.require(
        (query_rope is None) == (key_rope is None),
        lambda: "query_rope and key_rope must be given both or not at all, got one",
    )
    for name, rotated, x in (("query_rope", query_rope, query), ("key_rope", key_rope, key)):
        if rotated is not None:
            rules.dtype(name, rotated, (x.dtype,))
            rules.rank(name, rotated, x.dim())
            for dim, size in enumerate((*x.shape[:-1], ROTATED)):
                rules.equal(f"{name}.size({dim})", rotated.size(dim), "tokens, heads and channels", size)
