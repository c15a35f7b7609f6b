"""Calls of npu_sparse_lightning_indexer_grad_kl_loss."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

OP = "sparse_lightning_indexer_grad_kl_loss"
TOP, SCALE = 1024, 0.03125


def chosen(*rows: Any) -> torch.Tensor:
    return torch.tensor([[*row, *[-1] * (TOP - len(row))] for row in rows], dtype=torch.int32).unsqueeze(1)


def call(make: Any = f16, packed: bool = True, **changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Sequences of two tokens over three keys, and of one over two, or two tokens over three; eight heads of 32."""
    tokens, keys = (3, 5) if packed else (2, 3)
    arguments: dict[str, Any] = {"query": make(tokens, 32, 512) / 4, "key": make(keys, 1, 512) / 4}
    arguments |= {"query_index": make(tokens, 8, 128) / 4, "key_index": make(keys, 1, 128) / 4}
    arguments |= {"weights": make(tokens, 8) / 8, "sparse_indices": chosen([1, 0], [2, 0, 1], [0, 1])[:tokens]}
    arguments |= {"softmax_max": f32(1, tokens, 32), "softmax_sum": f32(1, tokens, 32).abs() + 8}
    rope: dict[str, Any] = {"query_rope": make(tokens, 32, 64) / 4, "key_rope": make(keys, 1, 64) / 4}
    if not packed:
        arguments, rope = ({name: tensor.unsqueeze(0) for name, tensor in part.items()} for part in (arguments, rope))
    named: dict[str, Any] = rope | {"layout": "TND" if packed else "BSND"}
    if packed:
        named |= {"actual_seq_qlen": [2, 3], "actual_seq_klen": [3, 5]}
    arguments["scale_value"] = SCALE
    for name, value in changed.items():
        (arguments if name in arguments else named)[name] = value
    return tuple(arguments.values()), named


def wrong(argument: str, label: str, **changed: Any) -> Any:
    args, named = call(**changed)
    return bad(OP, argument, label, *args, **named)


# Upstream does not lower it, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("sinks", "sinks", sinks=f32(32)),
    wrong("query_index", "float32", make=f32),
    wrong("query_index.size(-2)", "nine heads", query_index=f16(3, 9, 128)),
    wrong("key_index.size(-2)", "two heads of keys", key_index=f16(5, 2, 128)),
    wrong("weights", "another dtype of weights", weights=bf16(3, 8)),
    wrong("query", "another dtype", query=bf16(3, 32, 512)),
    wrong("query.size(-1)", "128 channels", query=f16(3, 32, 128)),
    wrong("query.size(-2)", "16 heads", query=f16(3, 16, 512)),
    wrong("query.size(0)", "another number of tokens", query=f16(2, 32, 512)),
    wrong("key.size(-2)", "two heads", key=f16(5, 2, 512)),
    wrong("query_rope", "no rope", query_rope=None),
    wrong("query_rope", "no rope of keys", key_rope=None),
    wrong("query_rope.size(-2)", "a rope of fewer heads", query_rope=f16(3, 16, 64)),
    wrong("key_rope.size(-1)", "a wide rope", key_rope=f16(5, 1, 128)),
    wrong("sparse_indices", "int64", sparse_indices=chosen([0], [0], [0]).long()),
    wrong("sparse_indices", "two dimensions", sparse_indices=chosen([0], [0], [0])[:, 0]),
    wrong("sparse_indices.size(0)", "a token too few", sparse_indices=chosen([0], [0])),
    wrong("sparse_indices.size(-1)", "512 indices", sparse_indices=chosen([0], [0], [0])[..., :512]),
    wrong("softmax_max", "float16", softmax_max=f16(1, 3, 32)),
    wrong("softmax_sum", "four dimensions", softmax_sum=f32(1, 1, 3, 32)),
    wrong("softmax_max.size(2)", "fewer heads of maxima", softmax_max=f32(1, 3, 16)),
    wrong("layout", "pages", layout="PA_BSND"),
    wrong("sparse_mode", "mode 0", sparse_mode=0),
    wrong("actual_seq_qlen", "no ends", actual_seq_qlen=None),
    wrong("sequence 1", "more queries than keys", actual_seq_klen=[5, 5]),
]
WRONG_VALUES = [wrong("sparse_indices[1]", "too few", sparse_indices=chosen([1, 0], [2, 0], [0, 1]))]


def expected(*args: Any, **named: Any) -> list[Any]:
    """Token by token, in float64."""
    query, key, query_index, key_index, weights, indices, largest, total = args[:8]
    ends = named.get("actual_seq_qlen", [query.shape[1]]), named.get("actual_seq_klen", [key.shape[1]])
    joined = [(query, named["query_rope"]), (key, named["key_rope"])]
    q, k = (np.concatenate([floats(one), floats(rope)], -1).astype(np.float64) for one, rope in joined)
    q, k = q.reshape(-1, 32, 576), k.reshape(-1, 576)
    qi, ki = floats(query_index).reshape(-1, 8, 128).astype(np.float64), floats(key_index).reshape(-1, 128)
    w, most, sums = (floats(tensor).astype(np.float64) for tensor in (weights, largest, total))
    w, most, sums = w.reshape(-1, 8), most.reshape(-1, 32), sums.reshape(-1, 32)
    out, loss = [np.zeros(qi.shape), np.zeros(ki.shape), np.zeros(w.shape)], 0.0
    first = start = 0
    for last, stop in zip(*ends, strict=True):
        for token in range(first, last):
            count = stop - start - (last - 1 - token)
            rows = start + indices.reshape(-1, TOP)[token, :count].numpy().astype(int)
            p = (np.exp(q[token] @ k[rows].T * SCALE - most[token][:, None]) / sums[token][:, None]).mean(0)
            relu = np.maximum(qi[token] @ ki[rows].T, 0)
            scores = w[token] @ relu
            y = np.exp(scores - scores.max())
            y = y / y.sum()
            loss += (p * (np.log(p) - np.log(y))).sum()
            slopes = (y - p) * w[token][:, None] * (relu > 0)
            out[0][token] = slopes @ ki[rows]
            out[1][rows] += slopes.T @ qi[token]
            out[2][token] = relu @ (y - p)
        first, start = last, stop
    shapes = query_index.shape, key_index.shape, weights.shape
    return [*(tensor.reshape(shape) for tensor, shape in zip(out, shapes, strict=True)), np.array([loss])]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    packed = draw(st.booleans())
    args, named = call(draw(st.sampled_from([f16, bf16])), packed)
    if draw(st.booleans()):
        args = (*args[:4], args[4].float(), *args[5:])
    return args, named


# The gradient of a product is rounded to bfloat16 before it is multiplied, and so are the results.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-6, sample=8)}
CALLS = {f"npu_{OP}": st.just(call())}
