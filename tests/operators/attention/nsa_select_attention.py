"""Calls of npu_nsa_select_attention and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, mostly, tensor
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32

OP, BACK = "nsa_select_attention", "nsa_select_attention_grad"
SCALE = 0.0625


def chosen(tokens: int, heads: int, count: int, blocks: int) -> torch.Tensor:
    picked = torch.arange(tokens * heads * count).reshape(tokens, heads, count) * 5 % blocks
    return picked.to(torch.int32)


def call(make: Any = f16, group: int = 2, mask: bool = False, **other: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Three tokens in two sequences of two and three blocks of 16 keys, of which two are chosen; two heads of keys."""
    arguments: dict[str, Any] = {
        "query": make(3, 2 * group, 192) / 4, "key": make(80, 2, 192) / 4, "value": make(80, 2, 128),
        "topk_indices": chosen(3, 2, 2, 2), "scale_value": SCALE, "head_num": 2 * group, "select_block_size": 16,
        "select_block_count": 2,
    }  # fmt: skip
    named: dict[str, Any] = {"actual_seq_qlen": [1, 3], "actual_seq_kvlen": [32, 80]}
    if mask:
        named["atten_mask"] = torch.zeros(2048, 2048, dtype=torch.bool)
    arguments |= {name: value for name, value in other.items() if name in arguments}
    named |= {name: value for name, value in other.items() if name not in arguments}
    return tuple(arguments.values()), named


def wrong(argument: str, label: str, **other: Any) -> Any:
    args, named = call(**other)
    return bad(OP, argument, label, *args, **named)


# Upstream lowers neither, so that they run eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("query", "float32", make=f32),
    wrong("query.size(2)", "128 channels", query=f16(3, 4, 128)),
    wrong("query.size(0)", "no token", query=f16(0, 4, 192)),
    wrong("key", "another dtype", key=bf16(80, 2, 192)),
    wrong("value.size(2)", "192 channels of values", value=f16(80, 2, 192)),
    wrong("value.size(0)", "fewer values", value=f16(64, 2, 128)),
    wrong("head_num", "other heads", head_num=2),
    wrong("query.size(1)", "part of a group", query=f16(3, 3, 192), head_num=3),
    wrong("query.size(1)", "large groups", query=f16(3, 66, 192), head_num=66),
    wrong(
        "query.size(1)",
        "129 heads",
        query=f16(3, 129, 192),
        head_num=129,
        key=f16(80, 129, 192),
        value=f16(80, 129, 128),
    ),
    wrong("select_block_size", "blocks of 8", select_block_size=8),
    wrong("select_block_count", "too many blocks", select_block_count=129),
    wrong("topk_indices", "int64", topk_indices=chosen(3, 2, 2, 2).long()),
    wrong("topk_indices.size(2)", "one block", topk_indices=chosen(3, 2, 1, 2)),
    wrong("atten_mask", "a mask of numbers", atten_mask=f16(8, 8)),
    wrong("atten_mask", "a mask of three dimensions", atten_mask=torch.zeros(1, 8, 8, dtype=torch.bool)),
    wrong("actual_seq_qlen", "no ends", actual_seq_qlen=None),
    wrong("actual_seq_kvlen", "an end for keys", actual_seq_kvlen=[80]),
    wrong("actual_seq_qlen", "falling ends", actual_seq_qlen=[3, 1]),
    wrong("actual_seq_qlen", "ends before the last", actual_seq_qlen=[1, 2]),
    wrong("actual_seq_kvlen", "fewer keys than chosen", actual_seq_kvlen=[16, 80]),
    wrong("actual_seq_kvlen", "part of a block", actual_seq_kvlen=[40, 80]),
]
WRONG_VALUES = [wrong("topk_indices", "a block behind the sequence", topk_indices=chosen(3, 2, 2, 3) + 1)]


def attention(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """In float64, row by row: results, maxima, sums, and the visible keys and weights of each row."""
    query, key, value = (tensor.double().numpy() for tensor in args[:3])
    picked, group = args[3].numpy(), query.shape[1] // key.shape[1]
    out = np.zeros((*query.shape[:2], 128))
    largest, total, seen = np.zeros(query.shape[:2]), np.zeros(query.shape[:2]), {}
    for token, head in np.ndindex(query.shape[:2]):
        sequence = next(at for at, end in enumerate(named["actual_seq_qlen"]) if token < end)
        start, first = ([0, *named[name]][sequence] for name in ("actual_seq_qlen", "actual_seq_kvlen"))
        positions = [int(block) * 16 + at for block in picked[token, head // group] for at in range(16)]
        rows = [first + position for position in positions]
        scores = key[rows, head // group] @ query[token, head] * SCALE
        if "atten_mask" in named:
            scores[np.array(positions) > token - start] = -np.inf
        largest[token, head] = scores.max()
        weights = np.exp(scores - scores.max())
        total[token, head] = weights.sum()
        seen[token, head] = rows, weights / weights.sum()
        out[token, head] = seen[token, head][1] @ value[rows, head // group]
    return out, largest, total, seen


def eight(numbers: Any) -> Any:
    return np.repeat(numbers[..., None], 8, -1).astype(np.float32)


def expected(*args: Any, **named: Any) -> list[Any]:
    out, largest, total, _ = attention(args, named)
    return [out, eight(largest), eight(total)]


def expected_gradient(grad: Any, query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> list[Any]:
    """The derivative, in float64, row by row."""
    args = (query, key, value, *rest[3:])
    out, _, _, seen = attention(args, named)
    upstream, q, k, v = (tensor.double().numpy() for tensor in (grad, query, key, value))
    gradients = [np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)]
    for (token, head), (rows, weights) in seen.items():
        kv = head // (q.shape[1] // k.shape[1])
        slopes = weights * (v[rows, kv] @ upstream[token, head] - upstream[token, head] @ out[token, head])
        gradients[0][token, head] = slopes @ k[rows, kv] * SCALE
        for row, slope, weight in zip(rows, slopes, weights, strict=True):
            gradients[1][row, kv] += slope * q[token, head] * SCALE
            gradients[2][row, kv] += weight * upstream[token, head]
    return gradients


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    # The first block is chosen where sight is to the left alone, so that every token sees a key.
    mask = draw(st.booleans())
    picked = torch.tensor([[[0, 1], [1, 0]]] * 3, dtype=torch.int32) if mask else chosen(3, 2, 2, 2)
    return call(draw(st.sampled_from([f16, bf16])), draw(st.sampled_from([1, 3])), mask, topk_indices=picked)


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, named = draw(with_data())
    out, largest, total, _ = attention(args, named)
    kind = args[0].dtype
    moments = [torch.from_numpy(eight(moment)) for moment in (largest, total)]
    grad = f32(*out.shape).to(kind)
    return (grad, *args[:3], torch.from_numpy(out).to(kind), *moments, *args[3:]), named


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, named = call()
    drawn = [tensor(draw, tuple(like.shape), like.dtype) for like in args[:3]]
    return (*drawn, *args[3:6], mostly(draw, 16, st.sampled_from([0, 24])), args[7]), named


CALLS = {f"npu_{OP}": calls()}
# Weights are rounded to bfloat16, and the result is; in the gradient so are the slopes of the scores.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-7, sample=6),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-6, sample=6),
}
