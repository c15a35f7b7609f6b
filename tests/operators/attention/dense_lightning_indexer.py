"""Calls of npu_dense_lightning_indexer_softmax_lse and npu_dense_lightning_indexer_grad_kl_loss."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32

OP, LOSS = "dense_lightning_indexer_softmax_lse", "dense_lightning_indexer_grad_kl_loss"
SCALE = 0.0625
TND = {"layout": "TND", "actual_seq_qlen": [2, 3], "actual_seq_klen": [2, 5]}


def index(make: Any = f16, layout: str = "BSND", heads: int = 8, **other: Any) -> tuple[Any, ...]:
    """Two rows over three keys; in TND two and one over two and three."""
    rows, keys = ((1, 2), (1, 3)) if layout == "BSND" else ((3,), (5,))
    arguments = {
        "query": make(*rows, heads, 128) / 8,
        "key": make(*keys, 1, 128) / 8,
        "weights": make(*rows, heads) / 4,
    }
    return tuple((arguments | other).values())


def wrong(argument: str, label: str, named: Any = None, **other: Any) -> Any:
    return bad(OP, argument, label, *index(**other), **(named or {}))


# Upstream lowers neither, so that they run eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("layout", "BNSD", {"layout": "BNSD"}),
    wrong("sparse_mode", "mode 0", {"sparse_mode": 0}),
    wrong("query_index", "float32", make=f32),
    wrong("query_index", "three dimensions", query=f16(2, 8, 128)),
    wrong("query_index.size(-2)", "four heads", heads=4),
    wrong("query_index.size(-1)", "64 channels", query=f16(1, 2, 8, 64)),
    wrong("key_index.size(-2)", "two heads of keys", key=f16(1, 3, 2, 128)),
    wrong("key_index", "another dtype", key=bf16(1, 3, 1, 128)),
    wrong("key_index.size(0)", "two batches of keys", key=f16(2, 3, 1, 128)),
    wrong("key_index.size(1)", "fewer keys", key=f16(1, 1, 1, 128)),
    wrong("weights", "bfloat16 weights", weights=bf16(1, 2, 8)),
    wrong("weights.size(2)", "fewer weights", weights=f16(1, 2, 4)),
    wrong("actual_seq_qlen", "ends beside BSND", {"actual_seq_qlen": [1]}),
    wrong("actual_seq_qlen", "no ends", {"layout": "TND"}, layout="TND"),
    wrong("actual_seq_klen", "one end", {**TND, "actual_seq_klen": [5]}, layout="TND"),
    wrong("actual_seq_qlen", "not to the last", {**TND, "actual_seq_qlen": [1, 2]}, layout="TND"),
    wrong("actual_seq_klen", "fewer keys in a sequence", {**TND, "actual_seq_klen": [1, 5]}, layout="TND"),
]


def training(make: Any, layout: str, rotated: bool, **other: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    query, key, weights = index(make, layout)
    rows, keys = query.shape[:-2], key.shape[:-2]
    named: dict[str, Any] = dict(TND) if layout == "TND" else {}
    if rotated:
        named |= {"query_rope": make(*rows, 32, 64) / 4, "key_rope": make(*keys, 32, 64) / 4}
    attention = make(*rows, 32, 128) / 4, make(*keys, 32, 128) / 4
    moments = [(1, 32, 2, 1), (1, 1, 2)] if layout == "BSND" else [(32, 3, 1), (1, 3)]
    arguments: dict[str, Any] = {"query": attention[0], "key": attention[1], "query_index": query, "key_index": key}
    arguments |= {"weights": weights, "max": f32(*moments[0]), "sum": f32(*moments[0]).abs() + 32}
    arguments |= {"max_index": f32(*moments[1]), "sum_index": f32(*moments[1]).abs() + 4, "scale": SCALE}
    named |= {name: value for name, value in other.items() if name not in arguments}
    return tuple((arguments | {name: value for name, value in other.items() if name in arguments}).values()), named


def unfit(argument: str, label: str, **other: Any) -> Any:
    args, named = training(f16, "BSND", True, **other)
    return bad(LOSS, argument, label, *args, **named)


WRONG += [
    unfit("query.size(-2)", "16 heads", query=f16(1, 2, 16, 128)),
    unfit("key.size(-2)", "shared keys", key=f16(1, 3, 64, 128)),
    unfit("query.size(1)", "other tokens", query=f16(1, 1, 32, 128)),
    unfit("query_rope and key_rope", "one rotation", key_rope=None),
    unfit("query_rope.size(3)", "32 channels", query_rope=f16(1, 2, 32, 32)),
    unfit("softmax_max", "halves", max=f16(1, 32, 2, 1)),
    unfit("softmax_sum.size(3)", "eight times", sum=f32(1, 32, 2, 8)),
    unfit("softmax_sum_index.size(2)", "of one token", sum_index=f32(1, 1, 1)),
]


def sequences(named: dict[str, Any], *tensors: torch.Tensor) -> Any:
    """In float64, sequence by sequence; every second tensor is of keys."""
    arrays = [array.double().numpy() for array in tensors]
    if named.get("layout", "BSND") == "BSND":
        yield [array[0] for array in arrays]
        return
    marks = [0, *named["actual_seq_qlen"]], [0, *named["actual_seq_klen"]]
    for sequence in range(2):
        yield [array[slice(*marks[at % 2][sequence : sequence + 2])] for at, array in enumerate(arrays)]


def scores(query: Any, key: Any, weights: Any) -> Any:
    """The scores of visible keys, summed over heads, row by row."""
    shift = len(key) - len(query)
    for row in range(len(query)):
        yield [
            sum(weights[row, head] * max(query[row, head] @ key[at, 0], 0) for head in range(query.shape[1]))
            for at in range(shift + row + 1)
        ]


def expected(query: Any, key: Any, weights: Any, **named: Any) -> list[Any]:
    rows = [np.array(row) for q, k, w in sequences(named, query, key, weights) for row in scores(q, k, w)]
    shape = (1, 1, len(rows)) if "layout" not in named else (1, len(rows))
    largest = np.array([row.max() for row in rows])
    total = np.array([np.exp(row - row.max()).sum() for row in rows])
    return [largest.reshape(shape), total.reshape(shape)]


def expected_loss(*args: Any, **named: Any) -> list[Any]:
    """The loss by its definition, and its gradients by the chain rule, row by row."""
    query, key, query_index, key_index, weights, most, sums, most_index, sums_index, _ = args
    if "query_rope" in named:
        query, key = torch.cat([query, named["query_rope"]], -1), torch.cat([key, named["key_rope"]], -1)
    loss, gradients = 0.0, [np.zeros(tensor.shape) for tensor in (query_index, key_index, weights)]
    views = [tensor[0] if query.dim() == 4 else tensor for tensor in gradients]
    flat = [tensor.double().numpy().reshape(32, -1) for tensor in (most, sums)]
    single = [tensor.double().numpy().ravel() for tensor in (most_index, sums_index)]
    starts = [0, 0]
    for q, k, qi, ki, w in sequences(named, query, key, query_index, key_index, weights):
        for row, indexed in enumerate(scores(qi, ki, w)):
            at = starts[0] + row
            seen = len(indexed)
            target = np.zeros(seen)
            for head in range(32):
                products = k[:seen, head] @ q[row, head] * SCALE
                target += np.exp(products - flat[0][head, at]) / flat[1][head, at] / 32
            predicted = np.exp(np.array(indexed) - single[0][at]) / single[1][at]
            loss += (target * (np.log(np.maximum(target, 1e-8)) - np.log(np.maximum(predicted, 1e-8)))).sum()
            for position, head in np.ndindex(seen, qi.shape[1]):
                slope, product = predicted[position] - target[position], qi[row, head] @ ki[position, 0]
                views[2][at, head] += slope * max(product, 0)
                if product > 0:
                    views[0][at, head] += slope * w[row, head] * ki[position, 0]
                    views[1][starts[1] + position, 0] += slope * w[row, head] * qi[row, head]
        starts = [starts[0] + len(q), starts[1] + len(k)]
    return [*gradients, np.array([loss])]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make, layout = draw(st.sampled_from([f16, bf16])), draw(st.sampled_from(["BSND", "TND"]))
    query, key, weights = index(make, layout)
    return (query, key, draw(st.sampled_from([weights, weights.float()]))), dict(TND) if layout == "TND" else {}


@st.composite
def with_training(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    return training(draw(st.sampled_from([f16, bf16])), draw(st.sampled_from(["BSND", "TND"])), draw(st.booleans()))


# Sums of 128 products in float32; gradients are rounded to bfloat16, and what they are products of is.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-16, sample=8),
    f"npu_{LOSS}": Statement(expected_loss, with_training(), bound=2.0**-7, sample=8),
}
