"""Calls of the gradients of npu_gelu, npu_fast_gelu, npu_silu and npu_geglu."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64, i8

GELU, FAST, SILU, GEGLU = "gelu_backward", "fast_gelu_backward", "silu_backward", "geglu_grad"
NINE = (1, 1, 1, 1, 1, 1, 1, 1, 2)
GOOD = [
    good(GELU, "float16", f16(3, 5), f16(3, 5)),
    good(GELU, "tanh", bf16(3, 5), bf16(3, 5), approximate="tanh"),
    good(GELU, "a row for all", f32(5), f32(3, 5)),
    good(GELU, "larger than the input", f32(2, 3, 5), f32(3, 1)),
    good(GELU, "two dtypes", f16(3, 5), f32(3, 5)),
    good(GELU, "two halves", f16(3, 5), bf16(3, 5), approximate="tanh"),
    good(GELU, "no rows", f16(0, 5), f16(0, 5)),
    good(GELU, "transposed", f16(5, 3).t(), f16(3, 5)),
    good(FAST, "float16", f16(3, 5), f16(3, 5)),
    good(FAST, "bfloat16", bf16(2, 3, 4), bf16(2, 3, 4)),
    good(FAST, "float32, transposed", f32(5, 3).t(), f32(3, 5)),
    good(FAST, "no rows", f16(0, 5), f16(0, 5)),
    good(SILU, "float16", f16(3, 5), f16(3, 5), f16(3, 5)),
    good(SILU, "bfloat16", bf16(7), bf16(7), bf16(7)),
    good(SILU, "float32", f32(0, 5), f32(0, 5), f32(0, 5)),
    good(GEGLU, "float16", f16(3, 5), f16(3, 10), f16(3, 5)),
    good(GEGLU, "erf", bf16(3, 5), bf16(3, 10), bf16(3, 5), approximate=0),
    good(GEGLU, "the first half gates", f32(2, 3, 4), f32(2, 6, 4), f32(2, 3, 4), 1, 0, True),
    good(GEGLU, "erf of float16", f16(2, 4), f16(4, 4), f16(2, 4), -2, 0, True),
    good(GEGLU, "no rows", f16(0, 5), f16(0, 10), f16(0, 5)),
]
WRONG = [
    bad(GELU, "approximate", "unknown", f16(3, 5), f16(3, 5), approximate="erf"),
    bad(GELU, "grad_output", "int8", i8(3, 5), f16(3, 5)),
    bad(GELU, "input", "float64", f16(3, 5), f64(3, 5)),
    bad(GELU, "input", "nine dimensions", f16(2), f16(*NINE)),
    bad(GELU, "grad_output.size(-1)", "another width", f16(3, 4), f16(3, 5)),
    bad(GELU, "input.size(-2)", "other rows", f16(2, 5), f16(3, 5)),
    bad(FAST, "input", "int8", i8(3, 5), i8(3, 5)),
    bad(FAST, "input", "nine dimensions", f16(*NINE), f16(*NINE)),
    bad(FAST, "grad", "another dtype", f32(3, 5), f16(3, 5)),
    bad(FAST, "grad", "another rank", f16(5), f16(3, 5)),
    bad(FAST, "grad.size(0)", "other rows", f16(1, 5), f16(3, 5)),
    bad(SILU, "grad_output", "int8", i8(3, 5), i8(3, 5), i8(3, 5)),
    bad(SILU, "grad_output", "nine dimensions", f16(*NINE), f16(*NINE), f16(*NINE)),
    bad(SILU, "x0", "another dtype", f16(3, 5), f32(3, 5), f16(3, 5)),
    bad(SILU, "x0.size(1)", "another width", f16(3, 5), f16(3, 4), f16(3, 5)),
    bad(SILU, "x1", "result of another dtype", f16(3, 5), f16(3, 5), f32(3, 5)),
    bad(SILU, "x1", "result of another rank", f16(3, 5), f16(3, 5), f16(5)),
    bad(GEGLU, "input", "int8", i8(3, 5), i8(3, 10), i8(3, 5)),
    bad(GEGLU, "input", "no dimension", f16(), f16(), f16()),
    bad(GEGLU, "approximate", "unknown", f16(3, 5), f16(3, 10), f16(3, 5), approximate=2),
    bad(GEGLU, "dim", "dim too high", f16(3, 5), f16(3, 10), f16(3, 5), dim=2),
    bad(GEGLU, "input.size(-1)", "odd", f16(3, 5), f16(3, 11), f16(3, 5)),
    bad(GEGLU, "grad_output", "another dtype", f32(3, 5), f16(3, 10), f16(3, 5)),
    bad(GEGLU, "half of input.size(1)", "as long as the input", f16(3, 10), f16(3, 10), f16(3, 5)),
    bad(GEGLU, "gelu", "gelu of another dtype", f16(3, 5), f16(3, 10), f32(3, 5)),
    bad(GEGLU, "gelu", "gelu of another rank", f16(3, 5), f16(3, 10), f16(5)),
    bad(GEGLU, "gelu.size(0)", "gelu of other rows", f16(3, 5), f16(3, 10), f16(2, 5)),
]


@st.composite
def pairs(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=0, max_size=3)))
    x = tensor(draw, shape, *FLOATS)
    return (tensor(draw, tuple(mostly(draw, size, st.just(1)) for size in shape), x.dtype, *FLOATS), x), {}


@st.composite
def gated(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(st.lists(SIZES, min_size=1, max_size=3))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    whole = list(shape)
    whole[dim] *= 2
    x = tensor(draw, tuple(whole), *FLOATS)
    return (tensor(draw, tuple(shape), x.dtype), x, tensor(draw, tuple(shape), x.dtype)), {"dim": dim}


CALLS = {f"npu_{GELU}": pairs(), f"npu_{FAST}": pairs(), f"npu_{GEGLU}": gated()}


def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate=approximate)


def differentiated(function: Callable[..., torch.Tensor], grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Autograd of the operator's formula in float64, with the same broadcasting."""
    upstream, point = torch.broadcast_tensors(grad.double(), x.double())
    point = point.clone().requires_grad_()
    function(point).backward(upstream)
    assert point.grad is not None
    return point.grad.to(torch.promote_types(grad.dtype, x.dtype))


def expected_gelu(grad: torch.Tensor, x: torch.Tensor, approximate: str) -> torch.Tensor:
    return differentiated(lambda at: gelu(at, approximate), grad, x)


def expected_fast(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return differentiated(lambda at: at * torch.sigmoid(1.702 * at), grad, x)


def expected_silu(grad: torch.Tensor, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return differentiated(lambda at: at * torch.sigmoid(at), grad, x)


def expected_geglu(grad: torch.Tensor, x: torch.Tensor, _: Any, dim: int, approximate: int, left: bool) -> torch.Tensor:
    at = x.double().requires_grad_()
    gate, other = at.chunk(2, dim)[:: 1 if left else -1]
    (gelu(gate, ("none", "tanh")[approximate]) * other).backward(grad.double())
    assert at.grad is not None
    return at.grad.to(x.dtype)


MAKERS = st.sampled_from([f16, bf16, f32])


@st.composite
def gelu_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shapes = draw(st.sampled_from([((3, 7), (3, 7)), ((7,), (3, 7)), ((2, 3, 1), (3, 7))]))
    return tuple(draw(MAKERS)(*shape) for shape in shapes), {"approximate": draw(st.sampled_from(["none", "tanh"]))}


@st.composite
def alike(draw: Draw, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, width = draw(MAKERS), draw(st.integers(1, 9))
    return tuple(make(3, width) for _ in range(count)), {}


@st.composite
def geglu_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, dim = draw(MAKERS), draw(st.sampled_from([0, 1, -1]))
    approximate, left = draw(st.integers(0, 1)), draw(st.booleans())
    x = make(4, 6)
    half = [4, 6]
    half[dim] //= 2
    _, activated = torch_npu.npu_geglu(x, dim, approximate, left)
    return (make(*half), x, activated, dim, approximate, left), {}


# float32 functions with an error of a few units of 2**-24 may round to the next bfloat16, 2**-8 away; the bfloat16
# result of npu_geglu already has an error of half of that.
BOUND = 2**-7
STATEMENTS = {
    f"npu_{GELU}": Statement(expected_gelu, gelu_data(), BOUND, sample=25),
    f"npu_{FAST}": Statement(expected_fast, alike(2), BOUND, sample=25),
    f"npu_{SILU}": Statement(expected_silu, alike(3), BOUND, sample=25),
    f"npu_{GEGLU}": Statement(expected_geglu, geglu_data(), BOUND, sample=25),
}


def expected_fast_950(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    wide, one = floats(x), np.float32(1)
    scaled = wide * np.float32(-1.702)
    sigmoid = one / (torch.exp(torch.from_numpy(scaled)).numpy() + one)
    return torch.from_numpy(floats(grad) * (((sigmoid - one) * scaled + one) * sigmoid)).to(x.dtype)


STATEMENTS_950 = {f"npu_{FAST}": Statement(expected_fast_950, alike(2))}
npu = torch.ops.npu
GOLDEN = {
    f"{GELU}-tanh": (lambda g, x: npu.npu_gelu_backward(g, x, approximate="tanh"), (f16(3, 5), f16(3, 5))),
    f"{GELU}-broadcast": (lambda g, x: npu.npu_gelu_backward(g, x), (f32(1, 5), f16(3, 5))),
    f"{FAST}-float16": (lambda g, x: npu.npu_fast_gelu_backward(g, x), (f16(3, 5), f16(3, 5))),
    f"{SILU}-float16": (lambda g, x, y: npu.npu_silu_backward(g, x, y), (f16(3, 5), f16(3, 5), f16(3, 5))),
    f"{GEGLU}-float16": (lambda g, x, y: npu.npu_geglu_grad(g, x, y), (f16(3, 5), f16(3, 10), f16(3, 5))),
}
