"""Calls of npu_block_sparse_attention."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, mostly
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32

OP = "block_sparse_attention"
Q, K = f16(2, 4, 9, 64), f16(2, 2, 130, 64)
MASK = torch.ones(2, 4, 3, 2, dtype=torch.int8)
BLOCKS = [4, 128]
B = {"q_input_layout": "BNSD", "kv_input_layout": "BNSD", "num_key_value_heads": 2, "scale_value": 0.125}
T = {"num_key_value_heads": 2, "actual_seq_lengths": [5, 4], "actual_seq_lengths_kv": [130, 0]}
PACKED = f16(9, 4, 64), f16(130, 2, 64), f16(130, 2, 64)
# Upstream lowers it nowhere, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    bad(OP, "q_input_layout", "BSND", Q, K, K, MASK, BLOCKS, **{**B, "q_input_layout": "BSND"}),
    bad(OP, "kv_input_layout", "another layout of keys", Q, K, K, MASK, BLOCKS, **{**B, "kv_input_layout": "TND"}),
    bad(OP, "query", "float32", Q.float(), K.float(), K.float(), MASK, BLOCKS, **B),
    bad(OP, "query", "three dimensions", Q[0], K, K, MASK, BLOCKS, **B),
    bad(OP, "key", "another dtype", Q, K.bfloat16(), K, MASK, BLOCKS, **B),
    bad(OP, "value", "three dimensions", Q, K, K[0], MASK, BLOCKS, **B),
    bad(OP, "value.size(2)", "tokens apart", Q, K, K[:, :, :9], MASK, BLOCKS, **B),
    bad(OP, "key.size(1)", "other heads", Q, K, K, MASK, BLOCKS, **{**B, "num_key_value_heads": 4}),
    bad(OP, "query.size(1)", "heads not shared", Q[:, :3], K, K, MASK[:, :3], BLOCKS, **B),
    bad(OP, "key.size(0)", "batches apart", Q, K[:1], K[:1], MASK, BLOCKS, **B),
    bad(OP, "query.size(-1)", "narrow heads", Q[..., :32], K[..., :32], K[..., :32], MASK, BLOCKS, **B),
    bad(OP, "key.size(-1)", "narrow keys", Q, K[..., :32], K[..., :32], MASK, BLOCKS, **B),
    bad(OP, "inner_precise", "float16 within bfloat16", Q.bfloat16(), K.bfloat16(), K.bfloat16(), MASK, BLOCKS, **B),
    bad(OP, "softmax_lse_flag", "2", Q, K, K, MASK, BLOCKS, **B, softmax_lse_flag=2),
    bad(OP, "block_shape", "64 keys", Q, K, K, MASK, [4, 64], **B),
    bad(OP, "block_shape", "queries alone", Q, K, K, MASK, [4], **B),
    bad(OP, "actual_seq_lengths and", "of queries alone", Q, K, K, MASK, BLOCKS, **B, actual_seq_lengths=[9, 9]),
    bad(OP, "actual_seq_lengths", "none", *PACKED, MASK, BLOCKS, num_key_value_heads=2),
    bad(OP, "the length of actual_seq_lengths_kv", "one", *PACKED, MASK, BLOCKS, **{**T, "actual_seq_lengths": [9]}),
    bad(OP, "the length of actual_seq_lengths", "three", Q, K, K, MASK, BLOCKS, **B, actual_seq_lengths=[9] * 3,
        actual_seq_lengths_kv=[9] * 3),
    bad(OP, "block_sparse_mask", "bool", Q, K, K, MASK.bool(), BLOCKS, **B),
    bad(OP, "block_sparse_mask", "three dimensions", Q, K, K, MASK[0], BLOCKS, **B),
    bad(OP, "block_sparse_mask.size(2)", "other blocks", Q, K, K, MASK, [9, 128], **B),
]  # fmt: skip
WRONG_VALUES = [
    bad(OP, "block_sparse_mask[0][0][0]", "a query that sees nothing", Q, K, K, MASK * 0, BLOCKS, **B),
    bad(OP, "actual_seq_lengths[1]", "more than there are", *PACKED, MASK[:, :, :2], BLOCKS,
        **{**T, "actual_seq_lengths": [5, 5]}),
]  # fmt: skip


def expected(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, blocks: Any, **options: Any
) -> Any:
    """Query by query in float64."""
    packed = options["q_input_layout"] == "TND"
    q, k, v = (tensor.double().numpy() for tensor in (query, key, value))
    out, logarithms = np.zeros(q.shape), np.zeros((*q.shape[:-1], 1))
    starts = np.cumsum([0, *options["actual_seq_lengths"]]), np.cumsum([0, *options["actual_seq_lengths_kv"]])
    for sequence, (length, keys) in enumerate(
        zip(options["actual_seq_lengths"], options["actual_seq_lengths_kv"], strict=True)
    ):
        for head in range(mask.shape[1]):
            shared = head // (mask.shape[1] // options["num_key_value_heads"])
            if packed:
                part = slice(starts[1][sequence], starts[1][sequence] + keys)
                all_keys, all_values = k[part, shared], v[part, shared]
            else:
                all_keys, all_values = k[sequence, shared, :keys], v[sequence, shared, :keys]
            for row in range(length if keys else 0):
                index = (starts[0][sequence] + row, head) if packed else (sequence, head, row)
                seen = np.repeat(mask[sequence, head, row // blocks[0]].numpy(), blocks[1])[:keys].astype(bool)
                scores = np.where(seen, all_keys @ q[index] * options["scale_value"], -np.inf)
                weights = np.exp(scores - scores.max())
                rounded = torch.from_numpy(weights).to(query.dtype).double().numpy()
                out[index] = rounded @ all_values / weights.sum()
                if options["softmax_lse_flag"]:
                    logarithms[index] = scores.max() + np.log(weights.sum())
    return [out, logarithms]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f16, bf16]))
    layout, kv_heads = draw(st.sampled_from(["TND", "BNSD"])), draw(st.sampled_from([1, 2]))
    lengths, keys = [draw(st.integers(0, 5)), 4], [130, draw(st.integers(0, 20))]
    if layout == "TND":
        q, k, v = make(sum(lengths), 2, 64), make(sum(keys), kv_heads, 64), make(sum(keys), kv_heads, 64)
        longest = max(lengths), max(keys)
    else:
        q, k, v = make(2, 2, 5, 64), make(2, kv_heads, 130, 64), make(2, kv_heads, 130, 64)
        longest = 5, 130
    rows = draw(st.sampled_from([1, 3, 64]))
    mask = torch.randint(2, (2, 2, -(-longest[0] // rows), 2), dtype=torch.int8)
    mask[..., 0] = 1  # the first keys are there in every sequence that has keys
    options = {
        "q_input_layout": layout, "kv_input_layout": layout, "num_key_value_heads": kv_heads, "scale_value": 0.05,
        "inner_precise": 0, "actual_seq_lengths": lengths, "actual_seq_lengths_kv": keys,
        "softmax_lse_flag": draw(st.sampled_from([0, 1])),
    }  # fmt: skip
    return (q, k, v, mask, [rows, 128]), options


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    q, k = f32(2, 4, 9, 64).half(), f32(2, 2, mostly(draw, 130, st.just(257)), 64).half()
    shape = [mostly(draw, 4, st.just(5)), mostly(draw, 128, st.just(64))]
    return (q, k, k, MASK, shape), {**B, "inner_precise": mostly(draw, 1, st.just(2))}


CALLS = {f"npu_{OP}": calls()}
# Weights and results are rounded to query's dtype, here too: a unit of bfloat16 in both where float32 falls otherwise.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-7, sample=15)}
