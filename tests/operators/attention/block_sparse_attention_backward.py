"""Calls of npu_block_sparse_attention_backward."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.tensors import bf16, f16

OP = "block_sparse_attention_backward"
SCALE = 0.05


def call(**other: Any) -> tuple[Any, ...]:
    """Two heads of five queries over 130 keys, by blocks of three and 128."""
    query, key = f16(1, 2, 5, 128), f16(1, 2, 130, 128)
    arguments: dict[str, Any] = {
        "d_out": query, "query": query, "key": key, "value": key, "attention_out": query,
        "softmax_lse": torch.zeros(1, 2, 5, 1), "block_sparse_mask": torch.ones(1, 2, 2, 2, dtype=torch.int8),
        "block_shape": [3, 128], "actual_seq_lengths": None, "actual_seq_lengths_kv": None, "q_input_layout": "BNSD",
        "kv_input_layout": "BNSD", "num_key_value_heads": 2, "scale_value": SCALE,
    } | other  # fmt: skip
    return tuple(arguments.values())


def wrong(argument: str, label: str, **other: Any) -> Any:
    return bad(OP, argument, label, *call(**other))


# Upstream lowers it nowhere, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("q_input_layout", "BSND", q_input_layout="BSND"),
    wrong("kv_input_layout", "two layouts", kv_input_layout="TND"),
    wrong("query", "float32", query=f16(1, 2, 5, 128).float()),
    wrong("query.size(-1)", "64 channels", query=f16(1, 2, 5, 64)),
    wrong("key", "another dtype", key=bf16(1, 2, 130, 128)),
    wrong("key.size(1)", "shared keys that are not counted", key=f16(1, 1, 130, 128)),
    wrong("key.size(1)", "one counted of two", num_key_value_heads=1),
    wrong("num_key_value_heads", "none", key=f16(1, 0, 130, 128), num_key_value_heads=0),
    wrong("query.size(1)", "more heads of keys", key=f16(1, 4, 130, 128), num_key_value_heads=4),
    wrong("key.size(0)", "batches apart", key=f16(2, 2, 130, 128)),
    wrong("value.size(2)", "fewer values", value=f16(1, 2, 129, 128)),
    wrong("d_out.size(2)", "fewer gradients", d_out=f16(1, 2, 4, 128)),
    wrong("attention_out", "another dtype of results", attention_out=bf16(1, 2, 5, 128)),
    wrong("softmax_lse", "halves", softmax_lse=f16(1, 2, 5, 1)),
    wrong("softmax_lse.size(3)", "eight times", softmax_lse=torch.zeros(1, 2, 5, 8)),
    wrong("block_shape", "64 keys", block_shape=[3, 64]),
    wrong("block_sparse_mask.size(2)", "blocks of 128", block_shape=None),
    wrong("actual_seq_lengths", "of queries alone", actual_seq_lengths=[5]),
]
WRONG_VALUES = [
    wrong("block_sparse_mask[0][0][0]", "nothing seen", block_sparse_mask=torch.zeros(1, 2, 2, 2, dtype=torch.int8))
]


def weighed(query: Any, key: Any, mask: Any, blocks: Any, layout: str, lengths: Any) -> dict[Any, Any]:
    """The key index, the weights and the log-sum-exp of each query, in float64."""
    starts = np.cumsum([0, *lengths[0]]), np.cumsum([0, *lengths[1]])
    by_query = {}
    for sequence, (rows, keys) in enumerate(zip(*lengths, strict=True)):
        for head in range(mask.shape[1]):
            for row in range(rows if keys else 0):
                seen = np.flatnonzero(np.repeat(mask[sequence, head, row // blocks[0]].numpy(), blocks[1])[:keys])
                at: Any = (sequence, head, row) if layout == "BNSD" else (starts[0][sequence] + row, head)
                of_keys = head // (mask.shape[1] // key.shape[1])
                over: Any = (sequence, of_keys, seen) if layout == "BNSD" else (starts[1][sequence] + seen, of_keys)
                scores = key[over] @ query[at] * SCALE
                total = np.log(np.exp(scores - scores.max()).sum()) + scores.max()
                by_query[at] = over, np.exp(scores - total), total
    return by_query


def expected(d_out: Any, query: Any, key: Any, value: Any, out: Any, lse: Any, mask: Any, *rest: Any) -> list[Any]:
    """In float64, query by query; like the operator, it reads the rounded result of attention."""
    del lse
    blocks, rows, keys, layout = rest[:4]
    up, q, k, v, result = (tensor.double().numpy() for tensor in (d_out, query, key, value, out))
    gradients = [np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)]
    for at, (over, weights, _) in weighed(q, k, mask, blocks, layout, (rows, keys)).items():
        slopes = weights * (v[over] @ up[at] - up[at] @ result[at])
        gradients[0][at] = slopes @ k[over] * SCALE
        gradients[1][over] += np.outer(slopes, q[at]) * SCALE
        gradients[2][over] += np.outer(weights, up[at])
    return gradients


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make, layout = draw(st.sampled_from([f16, bf16])), draw(st.sampled_from(["TND", "BNSD"]))
    lengths, keys, rows = [draw(st.integers(0, 5)), 4], [130, 7], draw(st.sampled_from([1, 3]))
    heads, kv_heads = draw(st.sampled_from([(2, 2), (2, 1), (4, 2)]))
    if layout == "TND":
        query, key, value = make(sum(lengths), heads, 128), make(137, kv_heads, 128), make(137, kv_heads, 128)
        most = max(lengths)
    else:
        query, key, value = make(2, heads, 5, 128), make(2, kv_heads, 130, 128), make(2, kv_heads, 130, 128)
        most = 5
    mask = torch.randint(2, (2, heads, -(-most // rows), 2), dtype=torch.int8)
    mask[..., 0] = 1
    out, lse = np.zeros(query.shape), np.zeros((*query.shape[:-1], 1))
    q, k, v = (tensor.double().numpy() for tensor in (query, key, value))
    for at, (over, weights, total) in weighed(q, k, mask, (rows, 128), layout, (lengths, keys)).items():
        out[at], lse[at] = weights @ v[over], total
    forward = torch.from_numpy(out).to(query.dtype), torch.from_numpy(lse).float()
    rest = mask, [rows, 128], lengths, keys, layout, layout, kv_heads, SCALE
    return (make(*query.shape), query, key, value, *forward, *rest), {}


# Weights and slopes are rounded to bfloat16, and the results are; what attention gave is rounded, too.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-6, sample=10)}
