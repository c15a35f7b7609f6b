"""Calls of npu_attn_softmax_ and of its gradient, which both write into their first argument."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32, i8

OP, BACK = "attn_softmax_", "attn_softmax_backward_"
W, G, V = f16(2, 3, 4), f16(2, 3, 5), f16(2, 4, 5)
# Upstream lowers neither, so that they run eagerly alone: allowed calls are those that are generated below.
WRONG = [
    bad(OP, "input", "int8", i8(2, 3)),
    bad(OP, "input", "no dimension", f16()),
    bad(BACK, "input", "int8 weights", i8(2, 3, 4), G, V),
    bad(BACK, "input", "four dimensions", W[None], G[None], V[None]),
    bad(BACK, "grad_output", "another dtype", W, G.float(), V),
    bad(BACK, "values", "two dimensions", W, G, V[0]),
    bad(BACK, "values.size(0)", "other sequences", W, G, V[:1]),
    bad(BACK, "grad_output.size(-2)", "fewer rows", W, G[:, :2], V),
    bad(BACK, "values.size(-2)", "fewer values", W, G, V[:, :3]),
    bad(BACK, "values.size(-1)", "narrow values", W, G, V[..., :4]),
]


def expected(scores: torch.Tensor) -> Any:
    """In float64."""
    x = scores.double().numpy()
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def expected_gradient(weights: torch.Tensor, grad: torch.Tensor, values: torch.Tensor) -> Any:
    """The derivative of softmax, in float64."""
    kept = weights.double().numpy()
    upstream = grad.double().numpy() @ np.swapaxes(values.double().numpy(), -1, -2)
    return kept * (upstream - (kept * upstream).sum(-1, keepdims=True))


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f32, f16, bf16]))
    return (make(*draw(st.sampled_from([(7,), (3, 4), (2, 3, 4, 5)]))),), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make, batch = draw(st.sampled_from([f32, f16, bf16])), draw(st.sampled_from([(), (2,)]))
    scores = make(*batch, 3, 4)
    return (scores.float().softmax(-1).to(scores.dtype), make(*batch, 3, 5), make(*batch, 4, 5)), {}


# A rounding to bfloat16; of the gradient another before it, of terms that cancel: four units of the largest.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-6),
}
