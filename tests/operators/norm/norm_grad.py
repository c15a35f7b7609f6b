"""Calls of the gradients of npu_rms_norm and npu_deep_norm."""

from typing import Any

import torch
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, tensor
from support.call_table import Statement, bad, good
from support.tensors import bf16, f16, f32, i8

RMS, DEEP = "rms_norm_backward", "deep_norm_backward"
X, R = f16(6, 16), f32(6, 1).abs()
NINE = (1, 1, 1, 1, 1, 1, 1, 2, 16)
GOOD = [
    good(RMS, "float16", X, X, f16(16), R),
    good(RMS, "float32 gamma", X, X, f32(16), R),
    good(RMS, "bfloat16", bf16(2, 3, 16), bf16(2, 3, 16), bf16(16), f32(2, 3, 1)),
    good(RMS, "two dimensions normalised", f32(2, 3, 16), f32(2, 3, 16), f32(3, 16), f32(2, 1, 1)),
    good(RMS, "all dimensions normalised", f32(3, 16), f32(3, 16), f32(3, 16), f32(1, 1)),
    good(RMS, "one row", bf16(16), bf16(16), bf16(16), f32(1)),
    good(RMS, "transposed", f16(16, 6).t(), X, f16(16), R),
    good(DEEP, "float16", X, X, X, f16(16), f32(6, 1), R),
    good(DEEP, "bfloat16", *[bf16(2, 3, 16)] * 3, bf16(16), f32(2, 3, 1), f32(2, 3, 1), 2.0),
    good(DEEP, "float32, two dimensions", *[f32(2, 3, 16)] * 3, f32(3, 16), f32(2, 1, 1), f32(2, 1, 1)),
    good(DEEP, "transposed", f16(16, 6).t(), X, f16(16, 6).t(), f16(16), f32(6, 1), R),
]
WRONG = [
    bad(RMS, "input", "int8", i8(6, 16), i8(6, 16), f16(16), R),
    bad(RMS, "input", "nine dimensions", f16(*NINE), f16(*NINE), f16(16), f32(1, 1, 1, 1, 1, 1, 1, 2, 1)),
    bad(RMS, "dy", "dy of another dtype", f32(6, 16), X, f16(16), R),
    bad(RMS, "dy", "dy of another rank", f16(16), X, f16(16), R),
    bad(RMS, "dy.size(0)", "dy of other rows", f16(5, 16), X, f16(16), R),
    bad(RMS, "dy.size(0)", "no rows", f16(0, 16), f16(0, 16), f16(16), f32(0, 1)),
    bad(RMS, "gamma", "another half", X, X, bf16(16), R),
    bad(RMS, "gamma", "gamma of more dimensions", X, X, f16(1, 6, 16), R),
    bad(RMS, "gamma.size(-1)", "gamma too short", X, X, f16(8), R),
    bad(RMS, "rstd", "rstd of half precision", X, X, f16(16), f16(6, 1)),
    bad(RMS, "rstd", "rstd without its last dimension", X, X, f16(16), f32(6)),
    bad(RMS, "rstd.size(0)", "rstd of other rows", X, X, f16(16), f32(5, 1)),
    bad(RMS, "rstd.size(1)", "rstd of every element", X, X, f16(16), f32(6, 16)),
    bad(DEEP, "dy", "int8", i8(6, 16), X, X, f16(16), R, R),
    bad(DEEP, "dy", "one dimension", f16(16), f16(16), f16(16), f16(16), f32(1), f32(1)),
    bad(DEEP, "dy.size(0)", "no rows", *[f16(0, 16)] * 3, f16(16), f32(0, 1), f32(0, 1)),
    bad(DEEP, "x", "x of another dtype", X, f32(6, 16), X, f16(16), R, R),
    bad(DEEP, "x.size(0)", "x of other rows", X, f16(5, 16), X, f16(16), R, R),
    bad(DEEP, "gx", "gx of another rank", X, X, f16(16), f16(16), R, R),
    bad(DEEP, "gamma", "float32 gamma", X, X, X, f32(16), R, R),
    bad(DEEP, "gamma", "all dimensions", X, X, X, f16(6, 16), f32(1, 1), f32(1, 1)),
    bad(DEEP, "gamma.size(-1)", "gamma too short", X, X, X, f16(8), R, R),
    bad(DEEP, "mean", "mean of half precision", X, X, X, f16(16), f16(6, 1), R),
    bad(DEEP, "mean.size(0)", "mean of other rows", X, X, X, f16(16), f32(5, 1), R),
    bad(DEEP, "rstd", "rstd without its last dimension", X, X, X, f16(16), R, f32(6)),
    bad(DEEP, "rstd.size(1)", "rstd of every element", X, X, X, f16(16), R, f32(6, 16)),
]


@st.composite
def calls(draw: Draw, like: int, statistics: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    count = draw(st.integers(1, len(shape)))
    tensors = [tensor(draw, shape, *FLOATS)]
    tensors += [tensor(draw, shape, tensors[0].dtype) for _ in range(like - 1)]
    tensors += [tensor(draw, shape[-count:], tensors[0].dtype)]
    kept = (*shape[:-count], *[1] * count)
    return (*tensors, *[tensor(draw, kept, torch.float32) for _ in range(statistics)]), {}


CALLS = {f"npu_{RMS}": calls(2, 1), f"npu_{DEEP}": calls(3, 2)}


def normed(x: torch.Tensor, epsilon: float, centred: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    mean = x.mean(-1, keepdim=True) if centred else torch.zeros_like(x[..., :1])
    rstd = ((x - mean).square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return (x - mean) * rstd, mean, rstd


def expected_rms(dy: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, _: torch.Tensor) -> list[torch.Tensor]:
    """Autograd of the norm in float64."""
    at, weight = (tensor.double().requires_grad_() for tensor in (x, gamma))
    (normed(at, 1e-6, False)[0] * weight).backward(dy.double())
    assert at.grad is not None
    assert weight.grad is not None
    return [at.grad.to(x.dtype), weight.grad.float()]


def expected_deep(dy: Any, x: Any, gx: Any, gamma: Any, _: Any, __: Any, alpha: float) -> list[torch.Tensor]:
    one, other, weight = (tensor.double().requires_grad_() for tensor in (x, gx, gamma))
    bias = torch.zeros_like(weight, requires_grad=True)
    (normed(one * alpha + other, 1e-6, True)[0] * weight + bias).backward(dy.double())
    return [one.grad.to(x.dtype), other.grad.to(x.dtype), bias.grad.float(), weight.grad.float()]  # type: ignore[union-attr]


@st.composite
def data(draw: Draw, deep: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = draw(st.sampled_from([f16, bf16, f32]))
    shape = draw(st.integers(1, 5)), draw(st.sampled_from([7, 16, 128]))
    scale, alpha = draw(st.sampled_from([1.0, 30.0])), draw(st.sampled_from([0.3, 2.0]))
    dy, x, gx, gamma = make(*shape), make(*shape) * scale, make(*shape), make(shape[1])
    _, mean, rstd = normed(x.double() * alpha + gx.double() if deep else x.double(), 1e-6, deep)
    if deep:
        return (dy, x, gx, gamma, mean.float(), rstd.float(), alpha), {}
    return (dy, x, gamma, rstd.float()), {}


# For float32 sums of 128 products with cancellation, and a rounding to bfloat16, which changes a result by 2**-9.
BOUND = 2**-7
STATEMENTS = {
    f"npu_{RMS}": Statement(expected_rms, data(False), BOUND, sample=25),
    f"npu_{DEEP}": Statement(expected_deep, data(True), BOUND, sample=25),
}
npu = torch.ops.npu
GOLDEN = {
    f"{RMS}-float16": (lambda dy, x, g, r: npu.npu_rms_norm_backward(dy, x, g, r), (X, X.clone(), f16(16), R)),
    f"{DEEP}-float16": (
        lambda dy, x, gx, g, m, r: npu.npu_deep_norm_backward(dy, x, gx, g, m, r, 0.5),
        (X, X.clone(), X.clone(), f16(16), R, R.clone()),
    ),
}
