"""Calls of npu_sparse_flash_attention_grad."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32

OP = "sparse_flash_attention_grad"
TOP, SCALE = 1024, 0.0625


def chosen(*rows: Any) -> torch.Tensor:
    """The indices of each token, followed by -1."""
    return torch.tensor([[*row, *[-1] * (TOP - len(row))] for row in rows], dtype=torch.int32).unsqueeze(1)


def forward(args: dict[str, Any], spans: Any, mode: int) -> Any:
    """The keys, weights and result of each token in float64, and the largest scores and sums."""
    query, key = (
        np.concatenate([floats(args[name]), floats(args[f"{name}_rope"])], -1).astype(np.float64)
        for name in ("query", "key")
    )
    query, key = query.reshape(-1, *query.shape[-2:]), key.reshape(-1, key.shape[-1])
    indices, seen = args["sparse_indices"].reshape(-1, TOP).numpy(), {}
    for (first, last), (start, stop) in spans:
        for token in range(first, last):
            count = min(TOP, stop - start - (last - 1 - token if mode == 3 else 0))
            rows = start + indices[token, :count].astype(int)
            scores = query[token] @ key[rows].T * SCALE
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            total = weights.sum(-1, keepdims=True)
            seen[token] = rows, weights / total, scores.max(-1), total[:, 0]
    return query, key, seen


def call(make: Any = f16, mode: int = 3, packed: bool = True, **changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Sequences of two tokens over three keys, and of one over two, or one of two tokens over three."""
    tokens, keys = (3, 5) if packed else (2, 3)
    spans = [((0, 2), (0, 3)), ((2, 3), (3, 5))][: 2 if packed else 1]
    picked = chosen([1, 0] if mode == 3 else [2, 1, 0], [2, 0, 1], [0, 1])[:tokens]
    arguments: dict[str, Any] = {"query": make(tokens, 2, 512) / 4, "key": make(keys, 1, 512) / 4}
    arguments |= {"query_rope": make(tokens, 2, 64) / 4, "key_rope": make(keys, 1, 64) / 4, "sparse_indices": picked}
    _, key, seen = forward(arguments, spans, mode)
    out = np.stack([seen[token][1] @ key[seen[token][0], :512] for token in range(tokens)])
    arguments |= {
        "value": arguments["key"],
        "d_out": make(tokens, 2, 512),
        "out": torch.from_numpy(out).to(make(1).dtype),
    }
    for index, name in ((2, "softmax_max"), (3, "softmax_sum")):
        arguments[name] = torch.tensor(np.stack([seen[token][index] for token in range(tokens)]), dtype=torch.float32)[
            None
        ]
    if not packed:
        arguments = {name: tensor.unsqueeze(0) for name, tensor in arguments.items()}
    order = ("query", "key", "value", "sparse_indices", "d_out", "out", "softmax_max", "softmax_sum")
    args = {name: arguments.pop(name) for name in order} | {"scale_value": SCALE, "sparse_block_size": 1}
    named = arguments | {"layout": "TND" if packed else "BSND", "sparse_mode": mode}
    if packed:
        named |= {"actual_seq_qlen": ends(2, 3), "actual_seq_kvlen": ends(3, 5)}
    for name, value in changed.items():
        (args if name in args else named)[name] = value
    return tuple(args.values()), named


def wrong(argument: str, label: str, **changed: Any) -> Any:
    args, named = call(**changed)
    return bad(OP, argument, label, *args, **named)


# Upstream does not lower it, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("query", "float32", query=f32(3, 2, 512)),
    wrong("query.size(-1)", "256 channels", query=f16(3, 2, 256)),
    wrong("query.size(-2)", "three heads", query=f16(3, 3, 512), query_rope=f16(3, 3, 64)),
    wrong("key", "another dtype", key=bf16(5, 1, 512)),
    wrong("key.size(-2)", "two heads of keys", key=f16(5, 2, 512)),
    wrong("value", "no values", value=None),
    wrong("value.size(0)", "fewer values", value=f16(4, 1, 512)),
    wrong("query_rope", "no rope", query_rope=None),
    wrong("key_rope.size(-1)", "a narrow rope", key_rope=f16(5, 1, 32)),
    wrong("sparse_indices", "int64", sparse_indices=chosen([0], [0], [0]).long()),
    wrong("sparse_indices.size(-1)", "512 indices", sparse_indices=chosen([0], [0], [0])[..., :512]),
    wrong("d_out", "another dtype of d_out", d_out=bf16(3, 2, 512)),
    wrong("out.size(0)", "a result too few", out=f16(2, 2, 512)),
    wrong("softmax_max", "float16 scores", softmax_max=f16(1, 3, 2)),
    wrong("softmax_max.size(2)", "another number of heads", softmax_max=f32(1, 3, 1)),
    wrong("softmax_sum", "two dimensions", softmax_sum=f32(3, 2)),
    wrong("sparse_block_size", "blocks of two", sparse_block_size=2),
    wrong("layout", "pages", layout="PA_BSND"),
    wrong("actual_seq_qlen", "no ends", actual_seq_qlen=None),
    wrong("actual_seq_kvlen", "no ends of keys", actual_seq_kvlen=None),
    wrong("actual_seq_qlen", "lengths of batches", packed=False, actual_seq_qlen=ends(2)),
    wrong("sparse_mode", "mode 1", sparse_mode=1),
    wrong("pre_tokens", "a window", pre_tokens=5),
    wrong("attention_mode", "mode 1 of attention", attention_mode=1),
    wrong("batches", "257 sequences", actual_seq_qlen=ends(*[3] * 257), actual_seq_kvlen=ends(*[5] * 257)),
]
WRONG_VALUES = [
    wrong("sparse_indices[1]", "an end before the keys are", sparse_indices=chosen([1, 0], [2, 0], [0, 1])),
    wrong("value", "other values", value=f16(5, 1, 512)),
]


def expected(
    query: Any, key: Any, value: Any, indices: Any, d_out: Any, out: Any, *_: Any, query_rope: Any, key_rope: Any,
    sparse_mode: int, **named: Any,
) -> list[Any]:  # fmt: skip
    """The derivative, token by token, in float64."""
    spans = [((0, query.shape[1]), (0, key.shape[1]))]
    if named["layout"] == "TND":
        spans = [((0, 2), (0, 3)), ((2, 3), (3, 5))]
    arguments = {"query": query, "key": key, "query_rope": query_rope, "key_rope": key_rope, "sparse_indices": indices}
    q, k, seen = forward(arguments, spans, sparse_mode)
    upstream, result = (floats(tensor).astype(np.float64).reshape(-1, 2, 512) for tensor in (d_out, out))
    of_q, of_k, of_v = np.zeros_like(q), np.zeros_like(k), np.zeros((k.shape[0], 512))
    for token, (rows, weights, _, _) in seen.items():
        spread = (upstream[token] * result[token]).sum(-1, keepdims=True)
        slopes = weights * (upstream[token] @ k[rows, :512].T - spread)
        of_q[token] = slopes @ k[rows] * SCALE
        of_k[rows] += slopes.T @ q[token] * SCALE
        of_v[rows] += weights.T @ upstream[token]
    of_q, of_k = of_q.reshape(*query.shape[:-1], 576), of_k.reshape(*key.shape[:-1], 576)
    return [of_q[..., :512], of_k[..., :512], of_v.reshape(value.shape), of_q[..., 512:], of_k[..., 512:]]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    return call(draw(st.sampled_from([f16, bf16])), draw(st.sampled_from([0, 3])), draw(st.booleans()))


# Weights and the gradient of scores are rounded to bfloat16 before their products, and so are the result and out.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-6, sample=8)}
CALLS = {f"npu_{OP}": st.just(call())}
