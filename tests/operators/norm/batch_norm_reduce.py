"""Calls of batch_norm_reduce."""

from typing import Any

import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Call, Statement
from support.tensors import bf16, f16, f32, f64

OP = "batch_norm_reduce"
# TorchAir registers it without a converter: it only runs eagerly.
WRONG = [
    Call(OP, "float64", (f64(2, 3, 4, 5), 1e-5), argument="input"),
    Call(OP, "three dimensions", (f32(2, 3, 4), 1e-5), argument="input"),
]


def expected(x: torch.Tensor, eps: float) -> list[Any]:  # noqa: ARG001 - it is reserved
    wide = x.double().numpy()
    return [wide.sum((0, 2, 3)), (wide**2).sum((0, 2, 3))]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    shape = draw(st.sampled_from([(2, 3, 4, 5), (1, 1, 1, 1), (3, 2, 1, 7)]))
    return (draw(st.sampled_from([f32, f16, bf16]))(*shape), 1e-5), {}


# float32 sums of forty elements, with cancellation.
STATEMENTS = {OP: Statement(expected, with_data(), bound=2.0**-16)}
