"""Calls of npu_moe_gating_top_k_backward."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import numbers, rounded
from support.call_strategies import FLOATS, Draw
from support.call_table import Statement, bad, good
from support.tensors import bf16, f16, f32, i8

NAME = "moe_gating_top_k_backward"
CHOSEN = torch.tensor([[0, 3], [2, 1], [3, 0]], dtype=torch.int32)
SCORES = torch.full((3, 4), 0.25)
GOOD = [
    good(NAME, "float16", SCORES, f16(3, 2), CHOSEN),
    good(NAME, "renormed", SCORES, bf16(3, 2), CHOSEN, renorm=1),
    good(NAME, "by sigmoid, scaled", SCORES, f32(3, 2), CHOSEN, norm_type=1, routed_scaling_factor=2.5),
]
WRONG = [
    bad(NAME, "x_norm", "scores float16", f16(3, 4), f16(3, 2), CHOSEN),
    bad(NAME, "x_norm", "scores of three dimensions", f32(1, 3, 4), f16(3, 2), CHOSEN),
    bad(NAME, "x_norm.size(1)", "too many experts", f32(3, 2049), f16(3, 2), CHOSEN),
    bad(NAME, "grad_y", "integers", SCORES, i8(3, 2), CHOSEN),
    bad(NAME, "grad_y", "one dimension", SCORES, f16(3), CHOSEN),
    bad(NAME, "grad_y.size(0)", "other tokens", SCORES, f16(2, 2), CHOSEN),
    bad(NAME, "expertIdx", "int64", SCORES, bf16(3, 2), CHOSEN.long()),
    bad(NAME, "expertIdx", "one dimension", SCORES, bf16(3, 2), CHOSEN[:, 0]),
    bad(NAME, "expertIdx.size(1)", "other experts", SCORES, bf16(3, 2), CHOSEN[:, :1]),
    bad(NAME, "renorm", "renorm 2", SCORES, f16(3, 2), CHOSEN, renorm=2),
    bad(NAME, "norm_type", "norm_type 2", SCORES, f16(3, 2), CHOSEN, norm_type=2),
]
WRONG_VALUES = [
    bad(NAME, "x_norm[0]", "scores that were not written", torch.zeros(3, 4), f16(3, 2), CHOSEN),
    bad(NAME, "expertIdx[0][1]", "no such expert", SCORES[:, :3], f16(3, 2), CHOSEN),
]


@st.composite
def calls(draw: Draw) -> Call:
    """The last token has equal scores and a gradient that surely matters: others may cancel to nothing."""
    data = Data(draw)
    tokens, experts = data.one_of(1, 2, 7), data.one_of(2, 4, 16)
    renorm, norm_type = data.one_of(0, 1), data.one_of(0, 1)
    # One weight by itself is always 1 if weights are divided by their sum.
    k = data.one_of(2, experts) if renorm or norm_type else data.one_of(1, 2, experts)
    logits = torch.cat([data.halves(torch.float32, tokens, experts), torch.zeros(1, experts)])
    scores = logits.sigmoid() if norm_type else logits.softmax(1)
    grad = torch.cat([data.eighths(torch.float32, tokens, k), torch.tensor([[4.0, -4.0, *[0.0] * experts]])[:, :k]])
    chosen = np.argsort(data.random.random((tokens + 1, experts)), axis=1)[:, :k].astype(np.int32)
    options = {"renorm": renorm, "norm_type": norm_type, "routed_scaling_factor": data.one_of(1.0, 2.5)}
    return (scores, grad.to(data.one_of(*FLOATS)), torch.from_numpy(chosen)), options


def expected(scores: Any, grad: Any, chosen: Any, renorm: int, norm_type: int, routed_scaling_factor: float) -> Any:
    """By Jacobians, in float64: of weights by chosen scores, and of scores by logits."""
    out = np.zeros(scores.shape)
    for token, (row, grad_row, experts) in enumerate(
        zip(scores.double().numpy(), numbers(grad).astype(np.float64), chosen.numpy(), strict=True)
    ):
        s, total = row[experts], row[experts].sum()
        weights = np.eye(len(s))
        if norm_type or renorm:
            weights = np.eye(len(s)) / total - np.outer(s, np.ones(len(s))) / total**2
        logits = np.diag(row * (1 - row)) if norm_type else np.diag(row) - np.outer(row, row)
        out[token] = routed_scaling_factor * grad_row @ weights @ logits[experts]
    return rounded(out.astype(np.float32), grad.dtype)


# Of the largest gradient, an eighth at least: the last bit of bfloat16, and the roundings of float32 of what comes in.
STATEMENTS = {f"npu_{NAME}": Statement(expected, calls(), bound=2.0**-8, sample=20)}
GOLDEN = {NAME: (lambda s, g, at: torch.ops.npu.npu_moe_gating_top_k_backward(s, g, at), (SCORES, f16(3, 2), CHOSEN))}
