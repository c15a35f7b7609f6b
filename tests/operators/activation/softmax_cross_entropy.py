"""Calls of npu_softmax_cross_entropy_with_logits and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64

OP, BACK = "softmax_cross_entropy_with_logits", "softmax_cross_entropy_with_logits_backward"
X, LABELS = f16(3, 5), f16(3, 5).softmax(1)
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    bad(OP, "input", "float64", f64(3, 5), f64(3, 5)),
    bad(OP, "input", "one dimension", f16(5), f16(5)),
    bad(OP, "input.size(1)", "no classes", f16(3, 0), f16(3, 0)),
    bad(OP, "labels", "another dtype", X, LABELS.float()),
    bad(OP, "labels", "one dimension", X, LABELS[0]),
    bad(OP, "labels.size(0)", "fewer rows", X, LABELS[:2]),
    bad(BACK, "grad", "another dtype", f32(3), X, LABELS),
    bad(BACK, "grad", "two dimensions", f16(3, 1), X, LABELS),
    bad(BACK, "grad.size(0)", "fewer", f16(2), X, LABELS),
]


def probabilities(x: torch.Tensor) -> Any:
    values = floats(x).astype(np.float64)
    powers = np.exp(values - values.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def expected_loss(x: torch.Tensor, labels: torch.Tensor) -> Any:
    return -(floats(labels) * np.log(probabilities(x))).sum(1)


def expected_gradient(grad: torch.Tensor, x: torch.Tensor, labels: torch.Tensor) -> Any:
    return (probabilities(x) - floats(labels)) * floats(grad)[:, None]


@st.composite
def losses(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = draw(st.sampled_from([f32, f16, bf16]))
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 9)))
    return (make(*shape), make(*shape).float().softmax(1).to(make(0).dtype)), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, labels), _ = draw(losses())
    return (f32(x.shape[0]).to(x.dtype), x, labels), {}


CALLS = {f"npu_{OP}": losses()}
# Results are rounded to input's dtype, bfloat16 at the coarsest: 2^-8 of the largest, of the gradient twice.
STATEMENTS = {
    f"npu_{OP}": Statement(expected_loss, losses(), bound=2.0**-8),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-7),
}
