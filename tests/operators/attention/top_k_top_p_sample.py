"""Calls of npu_top_k_top_p_sample; samples are tested in test_top_k_top_p_sample.py."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, tensor
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, f64

OP = "top_k_top_p_sample"
K, P = ends(3, 1), torch.tensor([0.5, 1.0])


def wrong(argument: str, label: str, *args: Any, **named: Any) -> Any:
    usual = (f32(2, 9), K, P)
    return bad(OP, argument, label, *args, *usual[len(args) :], **named)


# The document says that it is not for graphs: allowed calls are those that are generated below.
WRONG = [
    wrong("logits", "float64", f64(2, 9)),
    wrong("logits", "one dimension", f32(9)),
    wrong("logits.size(0)", "no rows", f32(0, 9)),
    wrong("logits.size(1)", "too many tokens", torch.zeros(2, (1 << 20) + 1)),
    wrong("top_k", "int64", f32(2, 9), K.long()),
    wrong("top_k", "two dimensions", f32(2, 9), K.reshape(2, 1)),
    wrong("top_k.size(0)", "a row too few", f32(2, 9), ends(3)),
    wrong("top_p", "another dtype", f32(2, 9), K, P.half()),
    wrong("top_p.size(0)", "a p too many", f32(2, 9), K, f32(3)),
    wrong("min_ps", "another dtype of min_ps", min_ps=f16(2)),
    wrong("min_ps", "two dimensions of min_ps", min_ps=f32(2, 1)),
    wrong("min_ps.size(0)", "a min_p too few", min_ps=f32(1)),
    wrong("ks_max", "none kept", ks_max=0),
    wrong("post_sample", "another way", post_sample="argmax"),
    wrong("q", "q beside a draw", q=f32(2, 9), post_sample="multiNomial"),
    wrong("q", "q beside none", q=f32(2, 9), post_sample="None"),
    wrong("q", "float16 q", q=f16(2, 9)),
    wrong("q.size(1)", "a narrower q", q=f32(2, 8)),
]


def expected(logits: Any, top_k: Any, top_p: Any, **named: Any) -> list[Any]:
    """Row by row, in float64 except for ties."""
    options = {"q": None, "min_ps": None, "ks_max": 1024, "input_is_logits": True, "is_need_logits": False} | named
    x, are_logits = floats(logits), options["input_is_logits"]
    picked, left = [], np.full(x.shape, -np.inf if are_logits and options["is_need_logits"] else 0.0, np.float32)
    for row in range(x.shape[0]):
        k, p = int(top_k[row]), float(top_p[row])
        order = np.argsort(-x[row], kind="stable")
        if 1 <= k <= min(x.shape[1], 1024, -(-options["ks_max"] // 4) * 4):
            order = order[:k]
        elif p >= 1:
            order = np.arange(x.shape[1])
        exponentials = np.exp(x[row, order].astype(np.float64) - x[row].max())
        shares = exponentials / exponentials.sum() if are_logits else x[row, order].astype(np.float64)
        if p <= 0:
            best = order[:1] if order[0] == np.argmax(x[row]) else np.array([np.argmax(x[row])])
            order, shares = best, np.ones(1) if are_logits else x[row, best].astype(np.float64)
        elif p < 1:
            before = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
            order, shares = order[before < p], shares[before < p]
        least = 0.0 if options["min_ps"] is None else float(options["min_ps"][row])
        if least >= 1:
            order, shares = order[[np.argmax(shares)]], shares[[np.argmax(shares)]]
        elif least > 0:
            order, shares = order[shares >= shares.max() * least], shares[shares >= shares.max() * least]
        if options["is_need_logits"]:
            left[row, order] = x[row, order]
        if options["q"] is not None:
            shares = shares / (np.abs(floats(options["q"][row, : len(order)])) + 1e-8)
        picked.append(order[np.argmax(shares)])
    return [np.array(picked), left]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    width, make = draw(st.sampled_from([1, 7, 40])), draw(st.sampled_from([f32, f16, bf16]))
    named: dict[str, Any] = {"is_need_logits": draw(st.booleans()), "ks_max": draw(st.sampled_from([1024, 5]))}
    logits = make(3, width)
    if draw(st.booleans()):
        logits, named["input_is_logits"] = logits.float().softmax(-1).to(logits.dtype), False
    dtype = logits.dtype
    k = torch.tensor([draw(st.sampled_from([0, 1, 3, 8, 30, 2000])) for _ in range(3)], dtype=torch.int32)
    p = torch.tensor([draw(st.sampled_from([-1.0, 0.0, 0.31, 0.77, 1.0, 2.0])) for _ in range(3)]).to(dtype)
    if draw(st.booleans()):
        named["min_ps"] = torch.tensor([draw(st.sampled_from([-1.0, 0.0, 0.21, 1.0])) for _ in range(3)]).to(dtype)
    if draw(st.booleans()):
        named["q"] = f32(3, width)
    return (logits, k, p), named


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (tensor(draw, (2, 9), torch.float32), tensor(draw, (2,), torch.int32), tensor(draw, (2,), torch.float32)), {}


CALLS = {f"npu_{OP}": calls()}
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}
