"""Calls of npu_add_layer_norm, npu_deep_norm, npu_layer_norm_eval and npu_group_norm_silu."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, optional, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8

ADD, DEEP, EVAL, GROUPS = "add_layer_norm", "deep_norm", "layer_norm_eval", "group_norm_silu"
X, P = (f16(6, 16), f16(6, 16)), (f16(16), f16(16))
XB, PF, I4 = (bf16(2, 3, 16), bf16(2, 3, 16)), (f32(16), f32(16)), f16(2, 4, 3, 2)
GOOD = [
    good(ADD, "float16", *X, *P),
    good(ADD, "float32 parameters, and the sum", *XB, *PF, 1e-4, True),
    good(ADD, "a float32 term", X[0], f32(6, 16), *PF, additional_output=True),
    good(ADD, "a half term", f32(2, 3, 16), XB[1], *PF),
    good(ADD, "two dimensions normalised", *XB, bf16(3, 16), bf16(3, 16)),
    good(DEEP, "float16", *X, *P),
    good(DEEP, "float32, two dimensions", f32(2, 3, 16), f32(2, 3, 16), f32(3, 16), f32(3, 16)),
    good(EVAL, "float32", f32(6, 16), [16], *PF),
    good(EVAL, "no parameters", f16(2, 3, 16), [3, 16]),
    good(EVAL, "a weight", XB[0], [16], bf16(16), None, 1e-3),
    good(GROUPS, "float16", I4, f16(4), f16(4), 2),
    good(GROUPS, "float32 parameters", bf16(2, 4, 3), f32(4), f32(4), 4, 1e-3),
    good(GROUPS, "no parameters", f32(2, 6), None, None, 3),
]
WRONG = [
    bad(ADD, "x1", "int8", i8(6, 16), X[1], *P),
    bad(ADD, "x1", "nine dimensions", *[f16(1, 1, 1, 1, 1, 1, 1, 2, 16)] * 2, *P),
    bad(ADD, "x2", "another half", X[0], bf16(6, 16), *P),
    bad(ADD, "x2", "another rank", X[0], f16(16), *P),
    bad(ADD, "x2.size(0)", "fewer rows", X[0], f16(2, 16), *P),
    bad(ADD, "x2.size(0)", "no rows", f16(0, 16), f16(0, 16), *P),
    bad(ADD, "gamma", "half parameters of mixed terms", X[0], f32(6, 16), *P),
    bad(ADD, "gamma.size(-1)", "gamma too short", *X, f16(8), f16(8)),
    bad(ADD, "beta", "beta of another dtype", *X, P[0], f32(16)),
    bad(ADD, "beta.size(-1)", "beta too short", *X, P[0], f16(8)),
    bad(DEEP, "x", "one dimension", f16(16), f16(16), *P),
    bad(DEEP, "x", "int8", i8(6, 16), X[1], *P),
    bad(DEEP, "gx", "another dtype", X[0], f32(6, 16), *P),
    bad(DEEP, "gx.size(0)", "fewer rows", X[0], f16(2, 16), *P),
    bad(DEEP, "gamma", "float32 parameters", *X, *PF),
    bad(DEEP, "gamma", "all dimensions", *X, f16(6, 16), f16(6, 16)),
    bad(DEEP, "beta", "beta of two dimensions", *X, f16(1, 16), P[1]),
    bad(EVAL, "input", "int8", i8(6, 16), [16]),
    bad(EVAL, "normalized_shape", "nothing to normalise", f32(6, 16), []),
    bad(EVAL, "normalized_shape[-1]", "another width", f32(6, 16), [8]),
    bad(EVAL, "weight", "weight of another dtype", f32(6, 16), [16], f16(16)),
    bad(EVAL, "bias", "bias of two dimensions", f32(6, 16), [16], None, f32(1, 16)),
    bad(EVAL, "bias.size(-1)", "bias too short", f32(6, 16), [16], None, f32(8)),
    bad(GROUPS, "input", "int8", i8(2, 4), None, None, 2),
    bad(GROUPS, "input", "one dimension", f16(4), None, None, 2),
    bad(GROUPS, "input.size(0)", "nothing", f16(0, 4), None, None, 2),
    bad(GROUPS, "input.size(1)", "groups of no size", I4, None, None, 3),
    bad(GROUPS, "group", "no group", I4, None, None, 0),
    bad(GROUPS, "eps", "eps of 0", I4, None, None, 2, 0.0),
    bad(GROUPS, "weight", "narrower parameters", f32(2, 4), f16(4), f16(4), 2),
    bad(GROUPS, "weight.size(0)", "too few weights", I4, f16(2), None, 2),
    bad(GROUPS, "bias", "bias of two dimensions", I4, None, f16(1, 4), 2),
    bad(GROUPS, "bias", "parameters of two dtypes", I4, f16(4), f32(4), 2),
]


@st.composite
def sums(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    x = tensor(draw, shape, *FLOATS)
    rows = shape[-draw(st.integers(1, len(shape))) :]
    return (x, tensor(draw, shape, x.dtype), tensor(draw, rows, x.dtype), tensor(draw, rows, x.dtype)), {}


@st.composite
def evals(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    rows = shape[-draw(st.integers(1, len(shape))) :]
    x = tensor(draw, shape, *FLOATS)
    return (x, list(rows), optional(draw, rows, x.dtype), optional(draw, rows, x.dtype)), {}


@st.composite
def groups(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    x = tensor(draw, shape, *FLOATS)
    return (x, optional(draw, shape[1:2], x.dtype), optional(draw, shape[1:2], x.dtype), draw(st.integers(0, 4))), {}


CALLS = {f"npu_{ADD}": sums(), f"npu_{DEEP}": sums(), f"npu_{EVAL}": evals(), f"npu_{GROUPS}": groups()}


def normed(wide: Any, epsilon: float) -> tuple[Any, Any, Any]:
    """Over the last axis, in float64."""
    mean = wide.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(((wide - mean) ** 2).mean(-1, keepdims=True) + epsilon)
    return (wide - mean) * rstd, mean, rstd


def wide(x: torch.Tensor) -> Any:
    return floats(x).astype(np.float64)


def expected_add(x1: Any, x2: Any, gamma: Any, beta: Any, epsilon: float, additional: bool) -> list[Any]:
    total = wide(x1) + wide(x2)
    norm, mean, rstd = normed(total, epsilon)
    dtype = x1.dtype if x1.dtype == x2.dtype else torch.float32
    y = torch.from_numpy(norm * wide(gamma) + wide(beta)).to(dtype)
    x = torch.from_numpy(total).to(dtype) if additional else torch.zeros_like(y)
    return [y, mean.astype(np.float32), rstd.astype(np.float32), x]


def expected_deep(x: Any, gx: Any, beta: Any, gamma: Any, alpha: float, epsilon: float) -> list[Any]:
    norm, mean, rstd = normed(wide(x) * alpha + wide(gx), epsilon)
    y = torch.from_numpy(norm * wide(gamma) + wide(beta)).to(x.dtype)
    return [mean.astype(np.float32), rstd.astype(np.float32), y]


def expected_eval(x: Any, _shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    norm = normed(wide(x), eps)[0] * (1 if weight is None else wide(weight)) + (0 if bias is None else wide(bias))
    return torch.from_numpy(norm).to(x.dtype)


def expected_groups(x: Any, weight: Any, bias: Any, group: int, eps: float) -> list[Any]:
    norm, mean, rstd = normed(wide(x).reshape(x.size(0), group, -1), eps)
    norm = norm.reshape(x.size(0), x.size(1), -1)
    norm = norm * (1 if weight is None else wide(weight)[:, None]) + (0 if bias is None else wide(bias)[:, None])
    y = (norm / (1 + np.exp(-norm))).reshape(x.shape)
    return [torch.from_numpy(result).to(x.dtype) for result in (y, mean[..., 0], rstd[..., 0])]


@st.composite
def sum_data(draw: Draw, mixed: bool) -> tuple[Any, ...]:
    rows, width = draw(st.integers(1, 4)), draw(st.sampled_from([7, 16, 128]))
    make = draw(st.sampled_from([f16, bf16, f32]))
    other, kind = (draw(st.sampled_from([make, f32])), f32) if mixed else (make, make)
    return make(rows, width), other(rows, width), kind(width), kind(width)


@st.composite
def add_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (*draw(sum_data(True)), draw(st.sampled_from([1e-5, 0.1])), draw(st.booleans())), {}


@st.composite
def deep_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (*draw(sum_data(False)), draw(st.sampled_from([0.3, 2.0])), 1e-5), {}


@st.composite
def eval_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, width = draw(st.sampled_from([f16, bf16, f32])), draw(st.sampled_from([7, 128]))
    rows = [draw(st.sampled_from([None, make(width)])) for _ in range(2)]
    return (make(3, width), [width], *rows, 1e-5), {}


@st.composite
def group_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, shape = draw(st.sampled_from([f16, bf16, f32])), draw(st.sampled_from([(2, 4, 9), (1, 8, 3, 5)]))
    kind = draw(st.sampled_from([make, f32]))
    rows = [draw(st.sampled_from([None, kind(shape[1])])) for _ in range(2)]
    return (make(*shape), *rows, draw(st.sampled_from([1, 2, 4])), 1e-5), {}


# The order of float32 sums may change the rounding to bfloat16 by one unit: 2**-7 of the result at most.
BOUND = 2**-7
STATEMENTS = {
    f"npu_{ADD}": Statement(expected_add, add_data(), BOUND),
    f"npu_{DEEP}": Statement(expected_deep, deep_data(), BOUND),
    f"npu_{EVAL}": Statement(expected_eval, eval_data(), BOUND),
    f"npu_{GROUPS}": Statement(expected_groups, group_data(), BOUND),
}
GOLDEN = {
    f"{ADD}-float16": (torch_npu.npu_add_layer_norm, (*X, *P)),
    f"{DEEP}-float16": (torch_npu.npu_deep_norm, (*X, *P)),
    f"{EVAL}-weight": (lambda x, w: torch_npu.npu_layer_norm_eval(x, [16], w), (X[0], P[0])),
    f"{GROUPS}-float16": (lambda x, w, b: torch_npu.npu_group_norm_silu(x, w, b, 2), (I4, f16(4), f16(4))),
}
