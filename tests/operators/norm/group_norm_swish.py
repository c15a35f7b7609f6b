"""Calls of npu_group_norm_swish and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, tensor
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32, f64

OP, BACK = "group_norm_swish", "group_norm_swish_grad"
X, W, B = f16(2, 4, 3), f16(4), f16(4)
M = f16(2, 2)
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    bad(OP, "input", "float64", f64(2, 4), 2, f64(4), f64(4)),
    bad(OP, "input", "one dimension", W, 2, W, B),
    bad(OP, "input.size(2)", "nothing", X[..., :0], 2, W, B),
    bad(OP, "num_groups", "no group", X, 0, W, B),
    bad(OP, "input.size(1)", "three groups", X, 3, W, B),
    bad(OP, "weight", "a weight of another dtype", X, 2, W.float(), B),
    bad(OP, "bias", "a bias of two dimensions", X, 2, W, B[None]),
    bad(OP, "bias.size(0)", "a short bias", X, 2, W, B[:3]),
    bad(OP, "eps", "below 0", X, 2, W, B, -1.0),
    bad(BACK, "grad.size(2)", "a narrow gradient", X[..., :2], X, 2, W, B, M, M, [True] * 3),
    bad(BACK, "mean", "a mean of another dtype", X, X, 2, W, B, M.float(), M, [True] * 3),
    bad(BACK, "rstd.size(1)", "rstd of one group", X, X, 2, W, B, M, M[:, :1], [True] * 3),
    bad(BACK, "input.size(1)", "4001 channels", *[f16(1, 4001)] * 2, 1, *[f16(4001)] * 2, *[f16(1, 1)] * 2, [True] * 3),
]


def normed(x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor) -> tuple[Any, ...]:
    """The normalised values without and with weight and bias, mean and rstd, in float64."""
    values = x.double().numpy().reshape(x.size(0), groups, -1)
    mean, rstd = values.mean(-1), 1 / np.sqrt(values.var(-1) + 1e-5)
    scaled = ((values - mean[..., None]) * rstd[..., None]).reshape(x.shape)
    rows = [parameter.double().numpy().reshape(1, -1, *[1] * (x.dim() - 2)) for parameter in (weight, bias)]
    return scaled, scaled * rows[0] + rows[1], mean, rstd


def expected(x: Any, groups: int, weight: Any, bias: Any, eps: float, scale: float) -> list[Any]:  # noqa: ARG001
    _, value, mean, rstd = normed(x, groups, weight, bias)
    return [(value / (1 + np.exp(-scale * value))), mean, rstd]


def expected_gradient(
    grad: Any, x: Any, groups: int, weight: Any, bias: Any, mean: Any, rstd: Any, mask: Any, scale: float
) -> list[Any]:
    """Finite differences of the sum of grad * y."""
    del mean, rstd, mask
    arguments = [argument.double().clone() for argument in (x, weight, bias)]
    step, gradients = 1e-5, []
    for argument in arguments:
        slopes = np.zeros(argument.shape)
        for at in np.ndindex(argument.shape):
            ends = []
            for move in (step, -step):
                argument[at] += move
                y = expected(arguments[0], groups, arguments[1], arguments[2], 1e-5, scale)[0]
                ends.append((grad.double().numpy() * y).sum())
                argument[at] -= move
            slopes[at] = (ends[0] - ends[1]) / (2 * step)
        gradients.append(slopes)
    return gradients


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f32, f16, bf16]))
    x = make(*draw(st.sampled_from([(2, 4), (2, 4, 3), (1, 4, 2, 3)])))
    return (x, draw(st.sampled_from([1, 2])), make(4), make(4), 1e-5, draw(st.sampled_from([1.0, 0.5]))), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """float32 only: the rounding of half-precision mean and rstd would dominate the error of the gradients."""
    draw(SEEDS)
    x = f32(*draw(st.sampled_from([(2, 4, 3), (1, 4, 2, 3)])))
    groups, weight, bias = draw(st.sampled_from([1, 2])), f32(4), f32(4)
    _, _, mean, rstd = normed(x, groups, weight, bias)
    statistics = [torch.from_numpy(statistic).float() for statistic in (mean, rstd)]
    return (f32(*x.shape), x, groups, weight, bias, *statistics, [True] * 3, draw(st.sampled_from([1.0, 0.5]))), {}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (tensor(draw, (2, 4, 3), torch.float16), 2, *[tensor(draw, (4,), torch.float16) for _ in range(2)]), {}


CALLS = {f"npu_{OP}": calls()}
# One rounding to bfloat16; gradients are float32 and limited by finite differences in float64.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-16, sample=10),
}
