"""Calls of npu_scaled_masked_softmax and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, mostly, tensor
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32, i8

OP, BACK = "scaled_masked_softmax", "scaled_masked_softmax_backward"
X, MASK = f16(2, 3, 32, 64), f32(2, 1, 32, 64) > 0
# Upstream lowers it nowhere, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    bad(OP, "x", "int8", i8(2, 3, 32, 64), MASK),
    bad(OP, "x", "three dimensions", X[0], MASK[0]),
    bad(OP, "x.size(2)", "few rows", X[:, :, :16], MASK[:, :, :16]),
    bad(OP, "x.size(3)", "48 columns", f16(1, 1, 32, 48), f32(32, 48) > 0),
    bad(OP, "x.size(3)", "too wide", f16(1, 1, 32, 4128), f32(1, 4128) > 0),
    bad(OP, "mask", "numbers", X, MASK.to(torch.uint8)),
    bad(OP, "mask", "five dimensions", X, MASK[None]),
    bad(OP, "mask.size(-4)", "other sequences", X, f32(3, 1, 32, 64) > 0),
    bad(OP, "fixed_triu_mask", "reserved", X, MASK, 1.0, True),
    bad(BACK, "y", "another dtype", X, X.float(), MASK, 1.0, False),
    bad(BACK, "y", "three dimensions", X, X[0], MASK, 1.0, False),
    bad(BACK, "y.size(1)", "other heads", X, X[:, :1], MASK, 1.0, False),
]


def expected(x: torch.Tensor, mask: torch.Tensor, scale: float) -> Any:
    """In float64."""
    scores = np.where(np.broadcast_to(mask.numpy(), x.shape), -10000.0, x.double().numpy() * scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def expected_gradient(gradient: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, scale: float, _: bool) -> Any:
    """The derivative of softmax, in float64."""
    weights, upstream = y.double().numpy(), gradient.double().numpy()
    grad = weights * (upstream - (weights * upstream).sum(-1, keepdims=True)) * scale
    return np.where(np.broadcast_to(mask.numpy(), y.shape), 0.0, grad)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f32, f16, bf16]))
    masks = st.sampled_from([(2, 2, 32, 64), (2, 1, 32, 64), (1, 1, 32, 64), (32, 64), (64,)])
    return (make(2, 2, 32, 64), f32(*draw(masks)) > 0, draw(st.sampled_from([1, 0.125]))), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, mask, scale), _ = draw(with_data())
    return (x, f32(2, 2, 32, 64).softmax(-1).to(x.dtype), mask, scale, False), {}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = (1, 2, draw(st.sampled_from([32, 33])), 32)
    mask = tensor(draw, (1, 1, shape[2], 32), torch.bool)
    return (tensor(draw, shape, torch.float16, torch.float32), mask, 1.0, mostly(draw, False, st.just(True))), {}


CALLS = {f"npu_{OP}": calls()}
# Results are rounded to x's dtype, bfloat16 at the coarsest: half a unit of 2^-8 of the largest.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-7),
}
