"""Calls of npu_lightning_indexer_grad."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32

OP = "lightning_indexer_grad"
TOP = 2048


def chosen(tokens: int, keys: int) -> torch.Tensor:
    """A random permutation of the keys for each token."""
    order = torch.stack([torch.arange(keys) * (7 + 2 * token) % keys for token in range(tokens)])
    return torch.nn.functional.pad(order[:, :TOP], (0, max(0, TOP - keys))).to(torch.int32)


def call(make: Any = f16, mode: int = 0, **changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Two tokens of three heads over 2049 keys."""
    arguments: dict[str, Any] = {"query": make(1, 2, 3, 128) / 8, "key": make(1, TOP + 1, 1, 128)}
    arguments |= {"dy": make(1, 2, 1, TOP), "sparse_indices": chosen(2, TOP + 1).reshape(1, 2, 1, TOP)}
    arguments["weights"] = make(1, 2, 3)
    named: dict[str, Any] = {"sparse_mode": mode}
    for name, value in changed.items():
        (arguments if name in arguments else named)[name] = value
    return tuple(arguments.values()), named


def packed(make: Any, mode: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A sequence of two tokens over five keys, which mode 3 sees in part, and one of one token over 2100."""
    keys = [5, 2100] if mode == 3 else [TOP, 2100]
    indices = torch.cat([chosen(2, keys[0]), chosen(1, keys[1])])
    if mode == 3:
        indices[0, :4] = ends(3, 0, 2, 1)
    args = (make(3, 2, 128) / 8, make(sum(keys), 1, 128), make(3, TOP), indices, make(3, 2))
    lengths = {"actual_seq_lengths_query": ends(2, 3), "actual_seq_lengths_key": ends(keys[0], sum(keys))}
    return args, {"layout": "TND", "sparse_mode": mode} | lengths


def wrong(argument: str, label: str, **changed: Any) -> Any:
    args, named = call(**changed)
    return bad(OP, argument, label, *args, **named)


# Upstream does not lower it, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("query", "float32", make=f32),
    wrong("query", "three dimensions", query=f16(2, 3, 128)),
    wrong("query.size(-1)", "64 channels", query=f16(1, 2, 3, 64)),
    wrong("query.size(-2)", "65 heads", query=f16(1, 2, 65, 128), weights=f16(1, 2, 65)),
    wrong("batches", "1025 batches", query=f16(1, 1, 1, 128).expand(1025, 1, 1, 128).contiguous(),
          key=torch.empty(1025, 1, 1, 128, dtype=torch.float16)),
    wrong("key", "another dtype", key=bf16(1, TOP, 1, 128)),
    wrong("key.size(-2)", "two heads of keys", key=f16(1, TOP, 2, 128)),
    wrong("key.size(1)", "fewer keys than are chosen", key=f16(1, 100, 1, 128)),
    wrong("dy", "another dtype of dy", dy=bf16(1, 2, 1, TOP)),
    wrong("dy.size(-1)", "a gradient too few", dy=f16(1, 2, 1, TOP - 1)),
    wrong("dy.size(-2)", "two heads of dy", dy=f16(1, 2, 2, TOP)),
    wrong("dy.size(1)", "a token too few", dy=f16(1, 1, 1, TOP)),
    wrong("sparse_indices", "int64", sparse_indices=chosen(2, TOP).long().reshape(1, 2, 1, TOP)),
    wrong("sparse_indices", "two dimensions", sparse_indices=chosen(2, TOP)),
    wrong("sparse_indices.size(-1)", "half as many", sparse_indices=chosen(2, TOP)[:, ::2].reshape(1, 2, 1, -1)),
    wrong("weights", "another dtype of weights", weights=bf16(1, 2, 3)),
    wrong("weights.size(1)", "another number of tokens", weights=f16(1, 1, 3)),
    wrong("layout", "keys in pages", layout="PA_BSND"),
    wrong("actual_seq_lengths_query", "lengths of batches", actual_seq_lengths_query=ends(2)),
    wrong("actual_seq_lengths_key", "lengths of keys", actual_seq_lengths_key=ends(TOP)),
    wrong("sparse_mode", "mode 1", mode=1),
    wrong("pre_tokens", "a window", pre_tokens=5),
    wrong("next_tokens", "a window to the right", next_tokens=5),
    bad(OP, "actual_seq_lengths_query", "no ends", *packed(f16, 3)[0], layout="TND"),
]  # fmt: skip
FAR = chosen(2, TOP + 1).reshape(1, 2, 1, TOP)
FAR[0, 1, 0, 3] = TOP + 1
WRONG_VALUES = [wrong("sparse_indices[1]", "a key behind the last", sparse_indices=FAR)]


def expected(query: Any, key: Any, dy: Any, indices: Any, weights: Any, **named: Any) -> list[Any]:
    """Token by token, in float64."""
    q, k, w = (floats(tensor).astype(np.float64) for tensor in (query, key, weights))
    shapes = q.shape, k.shape, w.shape
    lengths = ([query.shape[1]], [key.shape[1]])
    if named.get("layout") == "TND":
        lengths = tuple(named[f"actual_seq_lengths_{name}"].tolist() for name in ("query", "key"))
    q, k, w = q.reshape(-1, *q.shape[-2:]), k.reshape(-1, 128), w.reshape(-1, w.shape[-1])
    upstream, named_keys = floats(dy).astype(np.float64).reshape(-1, TOP), indices.numpy().reshape(-1, TOP)
    out = [np.zeros_like(q), np.zeros_like(k), np.zeros_like(w)]
    first, start = 0, 0
    for last, stop in zip(*lengths, strict=True):
        for token in range(first, last):
            count = min(TOP, stop - start - (last - 1 - token)) if named["sparse_mode"] == 3 else TOP
            for position in range(count):
                row = start + named_keys[token, position]
                products = q[token] @ k[row]
                slopes = np.where(products > 0, w[token] * upstream[token, position], 0)
                out[0][token] += slopes[:, None] * k[row]
                out[1][row] += slopes @ q[token]
                out[2][token] += np.maximum(products, 0) * upstream[token, position]
        first, start = last, stop
    return [tensor.reshape(shape) for tensor, shape in zip(out, shapes, strict=True)]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    mode = draw(st.sampled_from([0, 3]))
    return draw(st.sampled_from([call, packed]))(draw(st.sampled_from([f16, bf16])), mode)


# The gradient of a product is rounded to bfloat16 before it is multiplied, and so is the result.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-7, sample=6)}
CALLS = {f"npu_{OP}": st.just(call())}
